"""Patterns that need no regular expression: "H100", "^NVIDIA", ".*A100.*". Out: Python source, or None."""

import re
from typing import Final

_PLAIN: Final = re.compile(r"(\^)?((?:\.\*)?)([A-Za-z0-9_ /:-]*)((?:\.\*)?)(\$)?", re.ASCII)


def plain_test(pattern: str, text: str) -> str | None:
    """Return an expression that says whether the pattern is found in `text`, itself an expression of a str."""
    found = _PLAIN.fullmatch(pattern)
    if found is None:
        return None
    start, before, literal, after, end = found.groups()
    if (start and before) or (end and after):
        return None  # `.` stops at a newline, so an anchored `.*` is not the same as nothing
    if start and end:
        return f"({text} == {literal!r})"
    if start:
        return f"{text}.startswith({literal!r})"
    if end:
        return f"{text}.endswith({literal!r})"
    return f"({literal!r} in {text})"
