"""A checked selector: its tree, and what the checker found out about the nodes.

Constants are folded when a selector is compiled, as in the reference implementation (cel-go `OptOptimize`): literals, list
and map literals of constants, and conversions of constants. They cost nothing at run time. A conversion that fails makes
the whole selector fail, even where no evaluation would reach it.
"""

from dataclasses import dataclass, field
from typing import Final

from apportion.cel.library.functions import Dispatch
from apportion.cel.syntax.tree import Call, Const, ListLiteral, MapLiteral, Node, children
from apportion.cel.types import Type
from apportion.cel.values import CelFailure, Value, insert
from apportion.errors import SelectorError

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a call means: its possible overloads, and its arguments with the receiver as the first."""

    dispatch: Dispatch
    args: tuple[Node, ...]


@dataclass(slots=True)
class Checked:
    """A tree without compile errors. The evaluators need `calls` and `constants`."""

    root: Node
    types: dict[Node, Type] = field(default_factory=dict)
    calls: dict[Node, Resolved] = field(default_factory=dict)
    constants: dict[Node, Value] = field(default_factory=dict)
    """Values that are the same for every device: names of types, literals, conversions of literals."""


def fold_constants(checked: Checked) -> None:
    """Complete `checked.constants`; raises SelectorError when a conversion of a constant fails."""
    known = checked.constants
    for node in reversed(_outside_in(checked)):
        match node:
            case Const():
                known[node] = node.value
            case ListLiteral() if not node.optional and all(item in known for item in node.items):
                known[node] = tuple(known[item] for item in node.items)
            case MapLiteral() if all(
                key in known and value in known and not optional for key, value, optional in node.entries
            ):
                _map(node, known)
            case Call() if node.function in _CONVERSIONS and node.target is None:
                _conversion(node, checked)


def _outside_in(checked: Checked) -> list[Node]:
    """Return all nodes that are evaluated, every node before its parts. A loop: chains may be longer than the stack."""
    found: list[Node] = []
    waiting = [checked.root]
    while waiting:
        node = waiting.pop()
        found.append(node)
        resolved = checked.calls.get(node)
        if resolved is not None:
            waiting.extend(resolved.args)
        elif node not in checked.constants:
            waiting.extend(children(node))
    return found


def _map(node: MapLiteral, known: dict[Node, Value]) -> None:
    found: dict[Value, Value] = {}
    try:
        for key, value, _ in node.entries:
            insert(found, known[key], known[value])
    except CelFailure:
        return  # an error value, which is raised only when an evaluation reaches it
    known[node] = found


def _conversion(node: Call, checked: Checked) -> None:
    resolved = checked.calls[node]
    if len(resolved.args) != 1 or resolved.args[0] not in checked.constants:
        return
    try:
        checked.constants[node] = resolved.dispatch(checked.constants[resolved.args[0]])
    except CelFailure as failure:
        raise SelectorError(f"program instantiation failed: {failure}") from None
