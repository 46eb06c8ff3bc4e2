"""Values of CEL at run time, one Python class per CEL type, and the failures that evaluation ends in.

bool, int, str, bytes, float and None are themselves; lists are tuples; maps are dicts whose boolean keys are
`Flag` (in Python, True and 1 are the same key). `type(value)` alone tells the CEL type, so dispatch is exact.
"""

from dataclasses import dataclass
from threading import local
from typing import Any, Final, TypeAlias

from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

Value: TypeAlias = Any
"""Any CEL value. The checker has already ruled out what can be ruled out; the rest is decided by class."""

INT_MIN: Final = -(2**63)
INT_MAX: Final = 2**63 - 1
UINT_MAX: Final = 2**64 - 1
COST_LIMIT: Final = 1_000_000
"""Cost units an evaluation may spend (resource.k8s.io `CELSelectorExpressionMaxCost`)."""


class CelFailure(Exception):  # noqa: N818 - the CEL documents call it an error value
    """Evaluation gave an error value; `&&` and `||` may still absorb it."""


class CostExceeded(Exception):  # noqa: N818 - named as in upstream's message
    """The evaluation spent its budget; nothing absorbs that."""


class Uint(int):
    """An unsigned 64-bit integer."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Timestamp:
    """A moment, in nanoseconds since 1970 (UTC)."""

    nanos: int


@dataclass(frozen=True, slots=True)
class Duration:
    """A span of time in nanoseconds."""

    nanos: int


@dataclass(frozen=True, slots=True)
class TypeValue:
    """A type as a value, as `type(x)` gives it."""

    name: str


@dataclass(frozen=True, slots=True)
class Flag:
    """A boolean as the key of a map."""

    value: bool


@dataclass(frozen=True, slots=True, eq=False)
class Optional:
    """A value that may be absent."""

    value: Value
    present: bool = True


NONE: Final = Optional(None, present=False)


class Computed(Quantity):
    """What `add` and `sub` return. Upstream it is a pointer type, so that `capacity == q.add(q)` fails."""

    __slots__ = ()


_MOST_VISITS: Final = 100_000


class _Visits(local):
    """How many parts of nested values the present evaluation has visited; each thread has one evaluation at a time.

    Ten variables, each a list of ten times the former, make a value of ten thousand million parts. The reference implementation charges its
    outermost list only.
    """

    _count = 0

    def restart(self) -> None:
        """Begin an evaluation."""
        self._count = 0

    def add(self, parts: int) -> None:
        """Count parts; raises CostExceeded where a selector may not visit so many."""
        self._count += parts
        if self._count > _MOST_VISITS:
            raise CostExceeded


VISITS: Final = _Visits()


class Domains(dict[str, dict[str, Value]]):
    """Attributes or capacity by domain. An unknown domain gives an empty map (DRA's rule)."""

    __slots__ = ()


EMPTY_DOMAIN: Final[dict[str, Value]] = {}

TYPE_NAMES: Final[dict[type, str]] = {
    bool: "bool",
    int: "int",
    Uint: "uint",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null_type",
    tuple: "list",
    dict: "map",
    Domains: "map",
    Timestamp: "google.protobuf.Timestamp",
    Duration: "google.protobuf.Duration",
    TypeValue: "type",
    Optional: "optional_type",
    Quantity: "kubernetes.Quantity",
    Computed: "kubernetes.Quantity",
    Semver: "kubernetes.Semver",
}
"""CEL's name of each class; libraries add the names of their own types (`functions.own_type`)."""

GO_NAMES: Final = {
    "bool": "types.Bool",
    "int": "types.Int",
    "uint": "types.Uint",
    "double": "types.Double",
    "string": "types.String",
    "kubernetes.Semver": "cel.Semver",
    "kubernetes.Quantity": "cel.Quantity",
}
"""How the reference implementation names a class in "expected iterable type"."""


def name_of(value: Value) -> str:
    """Return CEL's name of a value's type."""
    return TYPE_NAMES.get(type(value), "dyn")


def no_overload() -> CelFailure:
    """Return the failure of a function that has no form for the classes of its arguments."""
    return CelFailure("no such overload")


def shown(value: Value) -> str:
    """Return a short text for a scalar in an error message; never the text of a whole container."""
    if type(value) is str:
        return value if len(value) <= 64 else f"{value[:64]}..."
    if type(value) in (bool, int, Uint, float):
        return str(value)[:64]
    return name_of(value)


def key_of(value: Value) -> Value:
    """Return the dict key of a CEL map key."""
    return Flag(value) if type(value) is bool else value


def value_of(key: Value) -> Value:
    """Return the CEL value of a dict key."""
    return key.value if type(key) is Flag else key


def insert(into: dict[Value, Value], key: Value, value: Value) -> None:
    """Add an entry to a map under construction; raises CelFailure for a bad or repeated key."""
    if type(key) not in (bool, int, str, Uint):
        raise CelFailure(f"unsupported key type: {name_of(key)}")
    name = key_of(key)
    if name in into:
        raise CelFailure("insert failed: key already exists")
    into[name] = value
