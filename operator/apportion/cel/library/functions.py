"""How a library declares functions, and how a call finds the overload that fits its arguments.

A library is a tuple of overloads. The checker resolves a call against the static types; at run time the class of each
argument decides, which is exact because every CEL type has its own Python class.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from apportion.cel.library.equality import STRICT
from apportion.cel.types import Type, parse_type
from apportion.cel.values import (
    TYPE_NAMES,
    VISITS,
    CelFailure,
    Computed,
    Domains,
    Duration,
    Optional,
    Timestamp,
    TypeValue,
    Uint,
    Value,
    no_overload,
)
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

Cost: TypeAlias = Callable[[tuple[Value, ...], Value], int]
"""Cost units of one call, from its arguments and its result (cel-go `runtimecost.go`, apiserver `cost.go`)."""

LARGEST: Final = 1 << 20
"""Characters or items that one call may make; more would be charged beyond the budget anyway."""

LARGEST_TEXT: Final = 1 << 16
"""Characters or items that a call may make which is not charged for them: a selector may make it hundreds of times."""

CLASSES: Final[dict[str, tuple[type, ...]]] = {
    "bool": (bool,),
    "int": (int,),
    "uint": (Uint,),
    "double": (float,),
    "string": (str,),
    "bytes": (bytes,),
    "null": (type(None),),
    "timestamp": (Timestamp,),
    "duration": (Duration,),
    "list": (tuple,),
    "map": (dict, Domains),
    "optional_type": (Optional,),
    "type": (TypeValue,),
    "kubernetes.Quantity": (Quantity, Computed),
    "kubernetes.Semver": (Semver,),
}
"""The Python classes of each CEL type."""


def own_type(name: str, cls: type) -> None:
    """Add a type of a library's own, whose values cannot be compared with other types."""
    CLASSES[name] = (cls,)
    TYPE_NAMES[cls] = name
    STRICT.add(cls)


@dataclass(frozen=True, slots=True, eq=False)
class Overload:
    """One overload of a function. For a method the first parameter is the receiver."""

    function: str
    method: bool
    params: tuple[Type, ...]
    result: Type
    run: Callable[..., Value]
    cost: Cost | None
    """None: one unit."""
    grows: bool = False
    """Whether the result can be larger than all arguments together."""

    def accepts(self, classes: tuple[type, ...]) -> bool:
        """Say whether arguments of these classes fit."""
        return len(classes) == len(self.params) and all(
            param.is_param or param.name == "dyn" or found in CLASSES[param.name]
            for param, found in zip(self.params, classes, strict=True)
        )


_DECLARATION = re.compile(
    r"(?:(?P<receiver>[\w.]+(?:\([\w(), ]*\))?) )?(?P<name>[^\s(]+)\((?P<params>.*)\) -> (?P<result>.+)"
)


def succeeds(parse: Callable[..., object]) -> Callable[..., bool]:
    """Return the function that says whether `parse` reads its arguments (isQuantity, isIP and the like)."""

    def test(*args: Value) -> bool:
        try:
            parse(*args)
        except CelFailure:
            return False
        return True

    return test


def declare(
    text: str, run: Callable[..., Value], cost: Cost | None = None, *, grows: bool = False
) -> Overload:
    """Make an overload of "name(type, ...) -> type", or for a method "type name(type, ...) -> type"."""
    found = _DECLARATION.fullmatch(text)
    if found is None:
        raise ValueError(f"bad declaration {text!r}")
    receiver = found["receiver"]
    inside = parse_type(f"args({found['params']})").params if found["params"] else ()
    params = (parse_type(receiver), *inside) if receiver else inside
    return Overload(
        found["name"], receiver is not None, params, parse_type(found["result"]), run, cost, grows
    )


class Dispatch:
    """The overloads that one call site may mean. Calling it runs the one that fits the arguments' classes."""

    __slots__ = ("_known", "overloads")

    def __init__(self, overloads: tuple[Overload, ...]) -> None:
        self.overloads = overloads
        self._known: dict[tuple[type, ...], Overload] = {}

    def find(self, classes: tuple[type, ...]) -> Overload:
        """Return the overload for arguments of these classes; raises CelFailure when there is none."""
        found = self._known.get(classes)
        if found is None:
            found = next((one for one in self.overloads if one.accepts(classes)), None)
            if found is None:
                raise no_overload()
            self._known[classes] = found
        return found

    def __call__(self, *args: Value) -> Value:
        """Run the overload that fits; raises CelFailure when there is none."""
        return self.find(tuple(map(type, args))).run(*args)


def size_of(value: Value) -> int:
    """Return what the cost model takes as a value's size; 1 for anything without parts."""
    cls = type(value)
    if cls is str or cls is tuple or cls is bytes or cls is dict or cls is Domains:
        return len(value)
    if cls is Optional and value.present:
        return size_of(value.value)
    size: Any = getattr(value, "cost_size", 1)
    return int(size)


def tenth(size: int) -> int:
    """Return the cost of passing over a string of this size."""
    return -(-size // 10)


def first(args: tuple[Value, ...], _: Value) -> int:
    """Cost of one pass over the first argument."""
    return tenth(size_of(args[0]))


def second(args: tuple[Value, ...], _: Value) -> int:
    """Cost of one pass over the second argument."""
    return tenth(size_of(args[1]))


def twice(args: tuple[Value, ...], _: Value) -> int:
    """Cost of two passes over the first argument."""
    return tenth(2 * size_of(args[0]))


def items(args: tuple[Value, ...], _: Value) -> int:
    """Cost of visiting everything inside the first argument (apiserver `traversalCost`)."""
    return _visit(args[0], nested=False)


def _visit(value: Value, *, nested: bool = True) -> int:
    cls = type(value)
    if nested and (cls is tuple or cls is dict or cls is Domains):
        VISITS.add(len(value))
    if cls is str or cls is bytes:
        return len(value) // 10
    if cls is tuple:
        return sum(map(_visit, value))
    if cls is dict or cls is Domains:
        return sum(_visit(key) + _visit(item) for key, item in value.items())
    return 1


def searched(args: tuple[Value, ...], _: Value) -> int:
    """Cost of a regular expression (second argument) over a string (first)."""
    return tenth(1 + size_of(args[0])) * -(-size_of(args[1]) // 4)
