"""The environment of DRA selectors: StoredExpressions of Kubernetes 1.37, which is what a scheduler compiles with.

What is not here (`math`, `base64`, `authorizer`) does not exist in DRA and is an undeclared reference.
"""

from typing import Final

from apportion.cel.functions import table
from apportion.cel.library import (
    formats,
    lists,
    network,
    optionals,
    quantities,
    regexes,
    semvers,
    sets,
    standard,
    strings,
    urls,
)

FUNCTIONS: Final = table(
    module.OVERLOADS
    for module in (
        standard,
        optionals,
        strings,
        lists,
        sets,
        quantities,
        semvers,
        regexes,
        network,
        urls,
        formats,
    )
)
NAMES: Final = frozenset(name for name, _ in FUNCTIONS)
