"""`"...".format([...])` (cel-go `ext/formatting.go`, as string library version 2 has it, in English).

In: a format string and values. Out: text; raises CelFailure. `clauses` also serves the checker.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import Final

from apportion.cel.library.conversions import decoded, double_text
from apportion.cel.library.functions import LARGEST_TEXT
from apportion.cel.library.times import duration_text, timestamp_text
from apportion.cel.values import (
    VISITS,
    CelFailure,
    CostExceeded,
    Domains,
    Duration,
    Flag,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    name_of,
    value_of,
)

_CLAUSE: Final = re.compile(r"%(?:(%)|(?:\.(\d*))?(.?))", re.DOTALL)
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
ESCAPED: Final = {char: f"\\{letter}" for char, letter in zip('\a\b\f\n\r\t\v\\"', 'abfnrtv\\"', strict=True)}
"""How Go writes these characters in a quoted string."""
VERBS: Final = "sdfexXbo"
_STRING_CLAUSE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)
CLAUSES: Final = {
    "s": _STRING_CLAUSE,
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "binary clause can only be used on integers and bools",
    "o": "octal clause can only be used on integers",
    "x": "hex clause can only be used on integers, byte buffers, and strings",
    "X": "hex clause can only be used on integers, byte buffers, and strings",
}
"""The error of each verb for a value that it cannot print."""
TAKEN: Final = {
    "s": frozenset("string bool bytes int uint double map list type duration timestamp null".split()),  # noqa: SIM905
    "d": frozenset({"int", "uint"}),
    "f": frozenset({"double", "string"}),
    "e": frozenset({"double", "string"}),
    "b": frozenset({"int", "uint", "bool"}),
    "o": frozenset({"int", "uint"}),
    "x": frozenset({"int", "uint", "string", "bytes"}),
    "X": frozenset({"int", "uint", "string", "bytes"}),
}
"""The types that each verb prints. A string may be "NaN" or "Infinity" for the verbs of doubles."""
_MOST_DIGITS: Final = 1000
_DIGITS: Final = 6


def clauses(text: str) -> Iterator[tuple[str, str, int]]:
    """Yield (text before, verb, precision); the verb of the rest is "". Raises CelFailure for a bad clause."""
    last, before = 0, ""
    for found in _CLAUSE.finditer(text):
        before += text[last : found.start()]
        last = found.end()
        if found[1]:
            before += "%"
            continue
        if not found[3]:
            raise CelFailure("could not parse formatting clause: unexpected end of string")
        if found[3] not in VERBS:
            raise CelFailure(
                f'could not parse formatting clause: unrecognized formatting clause "{found[3]}"'
            )
        if found[2] is not None and found[2] == "":
            raise CelFailure(
                "could not parse formatting clause: unable to convert precision specifier to integer"
            )
        digits = _DIGITS if found[2] is None else int(found[2][:6])
        if digits > _MOST_DIGITS:
            raise CelFailure(
                f"could not parse formatting clause: precision {digits} exceeds maximum allowed precision"
            )
        yield before, found[3], digits
        before = ""
    yield before + text[last:], "", 0


def format_string(text: str, args: tuple[Value, ...]) -> str:
    """Fill the clauses of a format string."""
    out: list[str] = []
    size = len(text)
    for position, (before, verb, digits) in enumerate(clauses(text)):
        out.append(before)
        if not verb:
            break
        if position >= len(args):
            raise CelFailure(f"index {position} out of range")
        out.append(_fill(verb, digits, args[position]))
        size += len(out[-1])
        if size > LARGEST_TEXT:
            raise CostExceeded
    return "".join(out)


def _fill(verb: str, digits: int, value: Value) -> str:
    match verb:
        case "s":
            return _text_of(value)
        case "f":
            return _fixed(_real(value, verb), digits)
        case "e":
            return _scientific(_real(value, verb), digits)
        case "b" if type(value) is bool:
            return "1" if value else "0"
        case "x" | "X" if type(value) in (str, bytes):
            hexed = (value.encode() if type(value) is str else value).hex()
            return str(hexed.upper() if verb == "X" else hexed)
    return _integer(value, verb)


def _integer(value: Value, verb: str) -> str:
    if type(value) not in (int, Uint):
        raise _refused(verb, value)
    return format(int(value), verb)


def _real(value: Value, verb: str) -> float:
    if type(value) is float:
        return value
    if type(value) is str and value in ("NaN", "Infinity", "-Infinity"):
        return float(value)
    raise _refused(verb, value)


def _refused(verb: str, value: Value) -> CelFailure:
    return CelFailure(f"error during formatting: {CLAUSES[verb]}, was given {name_of(value)}")


def _fixed(value: float, digits: int) -> str:
    return _special(value) or f"{value:,.{digits}f}"


def _scientific(value: float, digits: int) -> str:
    special = _special(value)
    if special:
        return special
    mantissa, _, power = f"{value:.{digits}e}".partition("e")
    return f"{mantissa}\u202f\u00d7\u202f10{power.removeprefix('+').translate(_SUPERSCRIPT)}"


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return ""


def _text_of(value: Value) -> str:
    """Return what `%s` makes of a value."""
    cls = type(value)
    if cls is tuple:
        return f"[{', '.join(map(_as_item, value))}]"
    if cls is dict or cls is Domains:
        rows = sorted((_as_item(value_of(key)), _as_item(item)) for key, item in value.items())
        return f"{{{', '.join(f'{key}:{item}' for key, item in rows)}}}"
    write = _WRITERS.get(cls)
    if write is None:
        raise _refused("s", value)
    return write(value)


def _as_item(value: Value) -> str:
    """Print a value inside a list or map, where it is written as a literal."""
    cls = type(value)
    if cls in (str, bytes, tuple, dict, Domains):
        VISITS.add(len(value))
    if cls is str:
        return _quoted(value)
    if cls is bytes:
        return f"b{_quoted(value.decode(errors='replace'))}"
    if cls is float:
        return f'"{_text_of(value)}"' if _special(value) else f"{value:.{_DIGITS}f}"
    if cls is Timestamp or cls is Duration:
        return f"{'timestamp' if cls is Timestamp else 'duration'}({_quoted(_text_of(value))})"
    return _text_of(value)


def _quoted(text: str) -> str:
    """Return a text in double quotes, escaped as Go does."""
    out = []
    for char in text:
        if char in ESCAPED:
            out.append(ESCAPED[char])
        elif char.isprintable():
            out.append(char)
        else:
            code = ord(char)
            out.append(
                f"\\x{code:02x}" if code < 128 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"
            )
    return f'"{"".join(out)}"'


_WRITERS: Final[dict[type, Callable[[Value], str]]] = {
    str: str,
    bool: lambda value: "true" if value else "false",
    Flag: lambda value: "true" if value.value else "false",
    int: str,
    Uint: lambda value: str(int(value)),
    float: double_text,
    bytes: decoded,
    type(None): lambda _: "null",
    Timestamp: timestamp_text,
    Duration: duration_text,
    TypeValue: lambda value: str(value.name),
}
