"""The environment of DRA selectors: StoredExpressions of Kubernetes 1.37, with which kube-scheduler compiles.

Libraries that are not listed here (`math`, `base64`, `authorizer`) do not exist in DRA: their functions are undeclared
references.
"""

from typing import Final

from apportion.cel.library import (
    formats,
    kubernetes,
    lists,
    network,
    optionals,
    regexes,
    standard,
    strings,
    urls,
)
from apportion.cel.library.functions import Overload

_LIBRARIES: Final = (
    standard,
    optionals,
    strings,
    lists,
    kubernetes,
    regexes,
    network,
    urls,
    formats,
)


def _functions() -> dict[tuple[str, bool], tuple[Overload, ...]]:
    found: dict[tuple[str, bool], tuple[Overload, ...]] = {}
    for library in _LIBRARIES:
        for one in library.OVERLOADS:
            key = one.function, one.method
            found[key] = (*found.get(key, ()), one)
    return found


FUNCTIONS: Final = _functions()
"""Overloads by function name and by whether it is a method, in the order of their declaration."""
FUNCTION_NAMES: Final = frozenset(name for name, _ in FUNCTIONS)
