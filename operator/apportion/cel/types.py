"""Static types of CEL: the types of expressions, which the checker finds without a device.

In: type expressions as the CEL documents write them ("list(string)", "map(A, dyn)"). Out: `Type` values and
the assignability rules of the CEL checker (unification with type parameters; `dyn` fits everything).
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final


@dataclass(frozen=True, slots=True)
class Type:
    """A type: a name, and parameters for list, map, optional and type."""

    name: str
    params: tuple["Type", ...] = ()

    @property
    def is_param(self) -> bool:
        """Whether this is a type parameter of a declaration ("A", or a fresh copy "A#7")."""
        return self.name[0] in "ABTRKV" and (len(self.name) == 1 or self.name[1] == "#")

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


DYN = Type("dyn")
BOOL = Type("bool")
INT = Type("int")
UINT = Type("uint")
DOUBLE = Type("double")
STRING = Type("string")
BYTES = Type("bytes")
NULL = Type("null")
QUANTITY = Type("kubernetes.Quantity")
DEVICE = Type("kubernetes.DRADevice")

_ALIASES = {
    "google.protobuf.Timestamp": "timestamp",
    "google.protobuf.Duration": "duration",
    "optional": "optional_type",
}
_NULLABLE = {"timestamp", "duration", "optional_type"}
_TOKEN = re.compile(r"[\w.]+|[(),]")


def list_of(item: Type) -> Type:
    """Return the type of lists of `item`."""
    return Type("list", (item,))


def map_of(key: Type, value: Type) -> Type:
    """Return the type of maps from `key` to `value`."""
    return Type("map", (key, value))


def optional_of(item: Type) -> Type:
    """Return the type of optional values of `item`."""
    return Type("optional_type", (item,))


def type_of(item: Type) -> Type:
    """Return the type of the type value `item`."""
    return Type("type", (item,))


ATTRIBUTES = map_of(STRING, map_of(STRING, DYN))
CAPACITY = map_of(STRING, map_of(STRING, QUANTITY))
DEVICE_FIELDS = {
    "driver": STRING,
    "attributes": ATTRIBUTES,
    "capacity": CAPACITY,
    "allowMultipleAllocations": BOOL,
}


@lru_cache(maxsize=1024)
def parse_type(text: str) -> Type:
    """Read a type expression; a bare `list`, `map` or `optional` has `dyn` inside."""
    tokens = _TOKEN.findall(text)
    found, rest = _parse(tokens)
    if rest:
        raise ValueError(f"bad type expression {text!r}")
    return found


def _parse(tokens: list[str]) -> tuple[Type, list[str]]:
    name, rest = _ALIASES.get(tokens[0], tokens[0]), tokens[1:]
    params: list[Type] = []
    if rest and rest[0] == "(":
        while rest[0] != ")":
            item, rest = _parse(rest[1:])
            params.append(item)
        rest = rest[1:]
    return Type(name, tuple(params)), rest


MOST_STEPS: Final = 200_000
"""Parts of types that one check may visit; expressions of the API's length need a seventh of that."""


class TooLarge(Exception):  # noqa: N818 - becomes a SelectorError
    """The types of an expression have too many parts: each of twenty variables may be a map of two of the one before."""


class Unifier:
    """The types to which type parameters are bound while an expression is checked."""

    def __init__(self) -> None:
        self.bound: dict[Type, Type] = {}
        self._fresh = 0
        self._steps = 0

    def fresh(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """Copy the types of a declaration with new type parameters."""
        self._fresh += 1
        return tuple(_renamed(item, self._fresh) for item in types)

    def assignable(self, actual: tuple[Type, ...], formal: tuple[Type, ...]) -> bool:
        """Say whether these arguments fit these parameters; if so, keeps the bindings."""
        kept = dict(self.bound)
        if all(self._fits(one, other) for one, other in zip(actual, formal, strict=True)):
            return True
        self.bound = kept
        return False

    def resolve(self, item: Type, *, final: bool = False) -> Type:
        """Replace bound type parameters; with `final`, unbound ones become dyn. Raises TooLarge, as all of this does."""
        self._step()
        if item.is_param:
            found = self.bound.get(item)
            if found is not None:
                return self.resolve(found, final=final)
            return DYN if final else item
        if not item.params:
            return item
        return Type(item.name, tuple(self.resolve(inner, final=final) for inner in item.params))

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise TooLarge

    def _fits(self, actual: Type, formal: Type) -> bool:
        self._step()
        if formal.is_param:
            valid = self._bind(formal, actual)
            if valid is not None:
                return valid
        if actual.is_param:
            return self._bind(actual, formal) is True
        if DYN in (actual, formal):
            return True
        if NULL in (actual, formal):
            other = formal if actual == NULL else actual
            return other == NULL or other.name in _NULLABLE or "." in other.name
        if actual.name == "type" and formal.name == "type":
            return True
        return (
            actual.name == formal.name
            and len(actual.params) == len(formal.params)
            and all(self._fits(one, other) for one, other in zip(actual.params, formal.params, strict=True))
        )

    def _bind(self, param: Type, to: Type) -> bool | None:
        """Bind `param` and say whether it fits; None when it is unbound and `to` contains it."""
        if param == to:
            return True
        known = self.bound.get(param)
        if known is not None:
            if known == to:
                return True
            if not self._fits(to, known):
                return False
            wider = to if _less_specific(to, known) else known
            if not self._occurs(param, wider):
                self.bound[param] = wider
            return True
        if self._occurs(param, to):
            return None
        self.bound[param] = to
        return True

    def _occurs(self, param: Type, inside: Type) -> bool:
        self._step()
        if param == inside:
            return True
        if inside.is_param:
            found = self.bound.get(inside)
            return found is not None and self._occurs(param, found)
        return any(self._occurs(param, inner) for inner in inside.params)


def _renamed(item: Type, number: int) -> Type:
    if item.is_param:
        return Type(f"{item.name}#{number}")
    if not item.params:
        return item
    return Type(item.name, tuple(_renamed(inner, number) for inner in item.params))


def _less_specific(one: Type, other: Type) -> bool:
    """Say whether `one` is as general as `other` or more so."""
    if one == DYN or one.is_param:
        return True
    if other == DYN or other.is_param or one.name != other.name or len(one.params) != len(other.params):
        return False
    return all(_less_specific(a, b) for a, b in zip(one.params, other.params, strict=True))


def unwrapped(found: Type) -> tuple[Type, bool]:
    """Return the type inside an optional and True; for any other type, the type and False."""
    return (found.params[0], True) if found.name == "optional_type" and found.params else (found, False)
