"""meant(): the known name that a mistyped one probably stands for."""

from collections.abc import Collection
from difflib import get_close_matches
from functools import lru_cache

_LEAST = 0.6
"""Similarity by which a name was probably meant, as difflib has it by default."""


def meant(name: str, known: Collection[str], *, least: float = _LEAST) -> str:
    """Return what was probably meant, as the end of a sentence; empty: nothing is so similar (`least`, from 0 to 1)."""
    close = _closest(name, frozenset(known), least)
    return f"; did you mean {close}?" if close else ""


@lru_cache(maxsize=1024)
def _closest(name: str, known: frozenset[str], least: float) -> str:
    domain, slash, own = name.rpartition("/")
    # Long domains make all names of one alike.
    of_domain = {
        each.removeprefix(domain + slash) for each in known if slash and each.startswith(domain + slash)
    }
    found = get_close_matches(own if of_domain else name, of_domain or known, n=1, cutoff=least)
    return "".join((domain, slash, *found) if of_domain and found else found)
