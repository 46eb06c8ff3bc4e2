"""Piece: a bit of Python source, and what is certain about its value."""

from typing import NamedTuple


class Unsupported(Exception):  # noqa: N818 - private to the fast path
    """This part of CEL has no fast form."""


class Piece(NamedTuple):
    """Source of an expression, and the class of its value if certain."""

    text: str
    kind: type | None = None
