"""What of a selector is constant, found once when it is compiled, as the reference implementation does.

In: a checked tree. Out: the value of every literal, of list and map literals of constants, and of conversions of
constants (cel-go `OptOptimize`). Such nodes cost nothing at run time. A conversion that fails makes the whole
selector fail, even where no evaluation would reach it.
"""

from typing import Final

from apportion.cel.checked import Checked
from apportion.cel.closures import insert
from apportion.cel.syntax import Call, Const, ListLiteral, MapLiteral, Node, children
from apportion.cel.values import CelFailure, Value
from apportion.errors import SelectorError

_CONVERSIONS: Final = frozenset(
    {"bool", "bytes", "double", "duration", "dyn", "int", "string", "timestamp", "type", "uint"}
)


def fold(checked: Checked) -> None:
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
    """Return all nodes that are evaluated, every node before its parts; a loop, because chains may be long."""
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
        return  # an error value, which only an evaluation that gets there may raise
    known[node] = found


def _conversion(node: Call, checked: Checked) -> None:
    resolved = checked.calls[node]
    if len(resolved.args) != 1 or resolved.args[0] not in checked.constants:
        return
    try:
        checked.constants[node] = resolved.dispatch(checked.constants[resolved.args[0]])
    except CelFailure as failure:
        raise SelectorError(f"program instantiation failed: {failure}") from None
