"""The syntax tree of a selector. Every node knows where in the text it stands (an offset into the text).

Nodes compare by identity: the checker files what it learns under the node itself.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

from apportion.cel.values import Value


@dataclass(frozen=True, slots=True, eq=False)
class Const:
    """A literal."""

    at: int
    depth: int
    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident:
    """A variable, a type name, or the first part of a qualified name."""

    at: int
    depth: int
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    """`operand.field`, `operand.?field`, or with `test` the argument of `has()`."""

    at: int
    depth: int
    operand: "Node"
    field: str
    test: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """A function, a method (`target` is set) or an operator, which is named as in `_+_`."""

    at: int
    depth: int
    function: str
    target: "Node | None"
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Logic:
    """All operands of one chain of `&&` or `||`."""

    at: int
    depth: int
    conjunction: bool
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated:
    """`!` or `-`, so many times in a row."""

    at: int
    depth: int
    operator: str
    times: int
    operand: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class Conditional:
    """`condition ? yes : no`."""

    at: int
    depth: int
    condition: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral:
    """`[a, ?b]`; `optional` holds the positions marked with `?`."""

    at: int
    depth: int
    items: tuple["Node", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral:
    """`{k: v, ?k: o}`; every entry says whether it is optional."""

    at: int
    depth: int
    entries: tuple[tuple["Node", "Node", bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Macro:
    """A macro that binds variables: all, exists, exists_one, map, filter, transform*, bind, optMap, sortBy.

    `bodies` are evaluated with `names` bound; `source` is what they range over (for `bind`, the bound value).
    """

    at: int
    depth: int
    kind: str
    source: "Node"
    names: tuple[str, ...]
    bodies: tuple["Node", ...]


Node: TypeAlias = (
    Const | Ident | Select | Call | Logic | Repeated | Conditional | ListLiteral | MapLiteral | Macro
)


def children(node: Node) -> Iterator[Node]:
    """Yield the direct parts of a node."""
    match node:
        case Select():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case Logic():
            yield from node.args
        case Repeated():
            yield node.operand
        case Conditional():
            yield from (node.condition, node.yes, node.no)
        case ListLiteral():
            yield from node.items
        case MapLiteral():
            for key, value, _ in node.entries:
                yield from (key, value)
        case Macro():
            yield node.source
            yield from node.bodies
        case _:
            return
