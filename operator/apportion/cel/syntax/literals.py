"""Read the tokens of literals: numbers and strings. In: token text. Out: values, or ValueError with a reason."""

import re
from typing import Final

from apportion.cel.values import INT_MAX, INT_MIN, UINT_MAX, Uint

_SIMPLE: Final = dict(zip("abfnrtv\\'\"`?", "\a\b\f\n\r\t\v\\'\"`?", strict=True))
_ESCAPE: Final = re.compile(
    r"\\(?:(?P<simple>[abfnrtv\\'\"`?])|[xX](?P<hex>[0-9a-fA-F]{2})|u(?P<u4>[0-9a-fA-F]{4})"
    r"|U(?P<u8>[0-9a-fA-F]{8})|(?P<octal>[0-3][0-7]{2})|(?P<bad>.?))",
    re.DOTALL,
)


def integer(text: str) -> int:
    """Read an int literal, decimal or hexadecimal, with its sign."""
    value = int(text, 16 if "x" in text else 10)
    if not INT_MIN <= value <= INT_MAX:
        raise ValueError("invalid int literal")
    return value


def unsigned(text: str) -> Uint:
    """Read a uint literal (`5u`)."""
    text = text.rstrip("uU")
    value = int(text, 16 if "x" in text else 10)
    if not 0 <= value <= UINT_MAX:
        raise ValueError("invalid uint literal")
    return Uint(value)


def string(token: str) -> str:
    """Read a string literal with its quotes and prefix."""
    raw, body = _body(token)
    return body if raw else _ESCAPE.sub(_character, body)


def data(token: str) -> bytes:
    """Read a bytes literal; characters become UTF-8, hexadecimal and octal escapes are single bytes."""
    raw, body = _body(token[1:])
    if raw:
        return body.encode()
    out, last = bytearray(), 0
    for found in _ESCAPE.finditer(body):
        out += body[last : found.start()].encode()
        last = found.end()
        if found["u4"] or found["u8"]:
            raise ValueError("\\u escapes are not allowed in bytes literals")
        number = _number(found)
        out += bytes([number]) if number is not None else _character(found).encode()
    return bytes(out + body[last:].encode())


def _body(token: str) -> tuple[bool, str]:
    raw = token[0] in "rR"
    if raw:
        token = token[1:]
    width = 3 if len(token) >= 6 and token[:3] in ('"""', "'''") else 1
    return raw, token[width:-width]


def _number(found: re.Match[str]) -> int | None:
    if found["hex"]:
        return int(found["hex"], 16)
    return int(found["octal"], 8) if found["octal"] else None


def _character(found: re.Match[str]) -> str:
    if found["simple"]:
        return _SIMPLE[found["simple"]]
    number = _number(found)
    if number is None:
        digits = found["u4"] or found["u8"]
        if not digits:
            raise ValueError(f"invalid escape sequence \\{found['bad']}")
        number = int(digits, 16)
    if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF:
        raise ValueError("escape is not a Unicode code point")
    return chr(number)
