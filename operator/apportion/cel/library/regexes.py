"""Regular expressions: RE2 only, so that no pattern can take exponential time (apiserver `library/regex.go`)."""

from functools import lru_cache
from typing import Any, Final

import re2

from apportion.cel.library.functions import declare, searched
from apportion.cel.values import VISITS, CelFailure

_MEMO: Final = 4096
"""Results kept per pattern; attribute values of a cluster are few."""

_LONGEST: Final = 1000
"""Characters of a text whose result is kept. Attributes have 64; a selector can make a hundred texts of 65,536 on each device."""

_MEMORY: Final = 1 << 19
"""Bytes of one compiled pattern. Half a thousand kept ones fit beside the snapshot; `.{1000}` needs a quarter of it."""
_TOO_LARGE: Final = 2000
"""Visits that a pattern beyond that counts as: RE2 finds out in some milliseconds."""
_LARGE: Final = 500
"""Visits of a pattern of some 1,600 instructions; a class of Unicode has fewer."""
_TEXT: Final = 65
"""Characters of a text from which on a pattern's work counts twice, and so on: an attribute has fewer."""


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
    options.max_mem = _MEMORY
    try:
        return re2.compile(pattern, options)  # type: ignore[no-untyped-call]  # re2 has no annotations
    except re2.error as error:
        reason = error.args[0] if error.args else "?"
        reason = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        if "too large" in reason:
            VISITS.add(_TOO_LARGE)
        raise CelFailure(f"error parsing regexp: {reason[:80]}") from None


@lru_cache(maxsize=4096)
def _work(pattern: str) -> int:
    beyond = int(compiled(pattern).programsize) - 2 * len(pattern) - 16
    return beyond * beyond // 5000 if beyond > 0 else 0


def visit(pattern: str, length: int) -> None:
    """Count the work of a pattern on a text of this length; raises CelFailure as `compiled` does, CostExceeded at the limit.

    CEL's cost goes by the pattern's length, and so does the work of most patterns, for which nothing is added here. A count (`{1000}`) or
    the class of all letters of Unicode makes RE2's program a thousand times as long.
    """
    work = _work(pattern)
    if work:
        VISITS.add(work * (1 + length // _TEXT))


def is_large(pattern: str) -> bool:
    """Say whether the pattern's work must be counted each time: it takes a millisecond or more on some texts."""
    try:
        return _work(pattern) > _LARGE
    except CelFailure:
        return False


@lru_cache(maxsize=256)
def results(pattern: str) -> dict[str, bool]:
    """Return the memo of a pattern: `results(p)[text]` says whether p is found in text."""
    return _Seen(compiled(pattern).search)


def matches(text: str, pattern: str) -> bool:
    """Say whether the pattern is found anywhere in the text."""
    visit(pattern, len(text))
    return results(pattern)[text]


def _find(text: str, pattern: str) -> str:
    visit(pattern, len(text))
    found = compiled(pattern).search(text)
    return found.group(0) if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> tuple[str, ...]:
    out: list[str] = []
    last = -1
    visit(pattern, len(text))
    for found in compiled(pattern).finditer(text):
        if limit >= 0 and len(out) >= limit:
            break
        # The search for the next match may read the rest of the text each time.
        visit(pattern, 0)
        VISITS.add((len(text) - found.start()) // 1000)
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
