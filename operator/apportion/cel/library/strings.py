"""Strings (cel-go `ext.Strings`, version 2, which has no `reverse`). Positions count characters."""

from typing import Final

from apportion.cel.library.functions import (
    LARGEST,
    LARGEST_TEXT,
    declare,
    first,
    items,
    size_of,
    tenth,
    twice,
)
from apportion.cel.library.stringformat import ESCAPED, format_string
from apportion.cel.values import CelFailure, CostExceeded, Value, shown

_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""Unicode's white space; `str.strip()` would also remove four control characters."""
_QUOTED: Final = str.maketrans(ESCAPED)
_LOWER: Final = {code: code + 32 for code in range(65, 91)}
_UPPER: Final = {code: code - 32 for code in range(97, 123)}


def _out_of_range(position: int) -> CelFailure:
    return CelFailure(f"index out of range: {position}")


def _char_at(text: str, position: int) -> str:
    if not 0 <= position <= len(text):
        raise _out_of_range(position)
    return text[position : position + 1]


def _index_of(text: str, part: str, offset: int = 0) -> int:
    if offset < 0:
        raise _out_of_range(offset)
    return min(offset, len(text)) if part == "" else text.find(part, offset)


def _last_index_of(text: str, part: str, offset: int | None = None) -> int:
    if offset is None:
        return text.rfind(part)
    if offset < 0:
        raise _out_of_range(offset)
    if part == "":
        return min(offset, len(text))
    return -1 if offset >= len(text) else text.rfind(part, 0, offset + len(part))


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    found = text.count(old) if count < 0 else min(text.count(old), count)
    if found and len(text) + found * (len(new) - len(old)) > LARGEST_TEXT:
        raise CostExceeded
    return text.replace(old, new, count)


def _split(text: str, separator: str, most: int = -1) -> tuple[str, ...]:
    if most == 0:
        return ()
    if separator:
        return tuple(text.split(separator, -1 if most < 0 else most - 1))
    if most < 0 or most >= len(text):
        return tuple(text)
    return (*text[: most - 1], text[most - 1 :])


def _substring(text: str, start: int, end: int | None = None) -> str:
    if end is not None and start > end:
        raise CelFailure(f"invalid substring range. start: {start}, end: {end}")
    for position in (start, len(text) if end is None else end):
        if not 0 <= position <= len(text):
            raise _out_of_range(position)
    return text[start:end]


def _join(parts: tuple[Value, ...], separator: str = "") -> str:
    for part in parts:
        if type(part) is not str:
            raise CelFailure(f"join: invalid input: {shown(part)}")
    if sum(map(len, parts)) + len(separator) * len(parts) > LARGEST:
        raise CostExceeded
    return separator.join(parts)


def _made(_: tuple[Value, ...], made: Value) -> int:
    return tenth(2 * size_of(made))


OVERLOADS = (
    declare("string charAt(int) -> string", _char_at),
    declare("string indexOf(string) -> int", _index_of, items),
    declare("string indexOf(string, int) -> int", _index_of, items),
    declare("string lastIndexOf(string) -> int", _last_index_of, items),
    declare("string lastIndexOf(string, int) -> int", _last_index_of, items),
    declare("string lowerAscii() -> string", lambda text: text.translate(_LOWER), first),
    declare("string upperAscii() -> string", lambda text: text.translate(_UPPER), first),
    declare("string replace(string, string) -> string", _replace, twice, grows=True),
    declare("string replace(string, string, int) -> string", _replace, twice, grows=True),
    declare("string split(string) -> list(string)", _split, twice),
    declare("string split(string, int) -> list(string)", _split, twice),
    declare("string substring(int) -> string", _substring, first),
    declare("string substring(int, int) -> string", _substring, first),
    declare("string trim() -> string", lambda text: text.strip(_SPACE), first),
    declare("list(string) join() -> string", _join, _made, grows=True),
    declare("list(string) join(string) -> string", _join, _made, grows=True),
    declare("string format(list(dyn)) -> string", format_string, first, grows=True),
    declare("strings.quote(string) -> string", lambda text: f'"{text.translate(_QUOTED)}"', first),
)
