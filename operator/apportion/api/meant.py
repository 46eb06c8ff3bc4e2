"""meant(): the known name that a mistyped one probably stands for."""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache


def meant(name: str, known: Collection[str]) -> str:
    """Return what was probably meant, as the end of a sentence; empty: nothing is close."""
    close = _closest(name, frozenset(known))
    return f"; did you mean {close}?" if close else ""


@lru_cache(maxsize=1024)
def _closest(name: str, known: frozenset[str]) -> str:
    return next(iter(get_close_matches(name, known, n=1, cutoff=0.6)), "")
