"""Regular expressions: RE2 only, so that no pattern can take exponential time (apiserver `library/regex.go`)."""

from functools import lru_cache
from typing import Any, Final

import re2

from apportion.cel.library.functions import declare, searched
from apportion.cel.values import CelFailure

_MEMO: Final = 4096
"""Results kept per pattern; attribute values of a cluster are few."""


_LONGEST: Final = 1000
"""Characters of a text whose result is kept. Attributes have 64; a selector can make a hundred texts of 65,536 on each device."""


class _Seen(dict[str, bool]):
    """Results by text; forgets everything when full."""

    def __init__(self, search: Any) -> None:
        super().__init__()
        self._search = search

    def __missing__(self, text: str) -> bool:
        found = self._search(text) is not None
        if len(text) <= _LONGEST:
            if len(self) >= _MEMO:
                self.clear()
            self[text] = found
        return found


@lru_cache(maxsize=256)
def compiled(pattern: str) -> Any:
    """Compile a pattern; raises CelFailure when RE2 refuses it."""
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 22
    try:
        return re2.compile(pattern, options)  # type: ignore[no-untyped-call]  # re2 has no annotations
    except re2.error as error:
        reason = error.args[0] if error.args else "?"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        raise CelFailure(f"error parsing regexp: {reason[:80]}") from None


@lru_cache(maxsize=256)
def results(pattern: str) -> dict[str, bool]:
    """Return the memo of a pattern: `results(p)[text]` says whether p is found in text."""
    return _Seen(compiled(pattern).search)


def matches(text: str, pattern: str) -> bool:
    """Say whether the pattern is found anywhere in the text."""
    return results(pattern)[text]


def _find(text: str, pattern: str) -> str:
    found = compiled(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    out: list[str] = []
    last = -1
    for found in compiled(pattern).finditer(text):
        if limit >= 0 and len(out) >= limit:
            break
        # As Go does it: an empty match right behind the previous match does not count.
        if found.start() == found.end() == last:
            continue
        out.append(found.group(0))
        last = found.end()
    return tuple(out)


OVERLOADS = (
    declare("matches(string, string) -> bool", matches, searched),
    declare("string matches(string) -> bool", matches, searched),
    declare("string find(string) -> string", _find, searched),
    declare("string findAll(string) -> list(string)", _find_all, searched),
    declare("string findAll(string, int) -> list(string)", _find_all, searched),
)
