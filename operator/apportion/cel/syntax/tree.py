"""The syntax tree of a selector.

Nodes compare by identity: the checker files what it learns under the node itself.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from apportion.cel.values import Value

_T = TypeVar("_T")


class BadSyntax(Exception):  # noqa: N818 - becomes a SelectorError with line and column
    """A part of the text that the parser takes but CEL does not. `at` is its place in the text."""

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """What every node has."""

    at: int
    """Where the node begins: an offset into the selector's text."""
    depth: int
    """Levels of nodes from here down, this one included."""


@dataclass(frozen=True, slots=True, eq=False)
class Const(Located):
    """A literal."""

    value: Value


@dataclass(frozen=True, slots=True, eq=False)
class Ident(Located):
    """A variable, a type name, or the first part of a qualified name."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select(Located):
    """`operand.field`, `operand.?field`, or with `test` the argument of `has()`."""

    operand: "Node"
    field: str
    test: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Call(Located):
    """A function, a method (`target` is set) or an operator, which is named as in `_+_`."""

    function: str
    target: "Node | None"
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Logic(Located):
    """All operands of one chain of `&&` or `||`."""

    conjunction: bool
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class Repeated(Located):
    """A row of `times` operators `!` or `-`."""

    operator: str
    times: int
    operand: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class Conditional(Located):
    """`condition ? yes : no`."""

    condition: "Node"
    yes: "Node"
    no: "Node"


@dataclass(frozen=True, slots=True, eq=False)
class ListLiteral(Located):
    """`[a, ?b]`; `optional` holds the positions marked with `?`."""

    items: tuple["Node", ...]
    optional: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class MapLiteral(Located):
    """`{k: v, ?k: o}`; every entry says whether it is optional."""

    entries: tuple[tuple["Node", "Node", bool], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Macro(Located):
    """A macro that binds variables: all, exists, exists_one, map, filter, transform*, bind, optMap, sortBy.

    `bodies` are evaluated with `names` bound; `source` is what they range over (for `bind`, the bound value).
    """

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
        case Select() | Repeated():
            yield node.operand
        case Call():
            if node.target is not None:
                yield node.target
            yield from node.args
        case Logic():
            yield from node.args
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
        case Const() | Ident():
            return


def inside_out(
    root: Node, done: dict[Node, _T], parts: Callable[[Node], Iterable[Node]], make: Callable[[Node], _T]
) -> _T:
    """Fill `done` with what `make` returns for a node, its parts first. A loop: chains may be longer than the stack."""
    waiting = [(root, False)]
    while waiting:
        node, ready = waiting.pop()
        if node in done:
            continue
        if ready:
            done[node] = make(node)
        else:
            waiting.append((node, True))
            waiting.extend([(part, False) for part in reversed(tuple(parts(node)))])
    return done[root]
