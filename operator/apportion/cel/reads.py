"""What a selector can read of a device, found without running it.

In: a checked tree. Out: the set of (kind, full name) that constant look-ups can touch; None when the selector
uses `device`, a whole map or a computed name, and so may read anything. A cache may key its results by these.
"""

from typing import TypeAlias

from apportion.cel.check import Checked
from apportion.cel.literalcheck import children
from apportion.cel.syntax import Call, Const, Ident, Macro, Node, Select

Reads: TypeAlias = frozenset[tuple[str, str]] | None
_MAPS = {"attributes": "attribute", "capacity": "capacity"}


def reads(checked: Checked) -> Reads:
    """Return what the selector can read."""
    found: set[tuple[str, str]] = set()
    waiting: list[tuple[Node, frozenset[str]]] = [(checked.root, frozenset())]
    while waiting:
        node, bound = waiting.pop()
        if isinstance(node, Ident):
            if node.name == "device" and "device" not in bound:
                return None
            continue
        name = look_up(node) if "device" not in bound else None
        if name is not None:
            found.add(name)
            continue
        if isinstance(node, Macro):
            waiting.append((node.source, bound))
            inner = bound | frozenset(node.names)
            waiting.extend((body, inner) for body in node.bodies)
            continue
        waiting.extend((child, bound) for child in children(node))
    return frozenset(found)


def look_up(node: Node) -> tuple[str, str] | None:
    """Return what a constant look-up reads: `device.driver`, `device.attributes["d"].x` in all spellings."""
    if isinstance(node, Select) and isinstance(node.operand, Ident) and node.operand.name == "device":
        return None if node.field in _MAPS else ("field", node.field)
    step = _step(node)
    if step is None:
        return None
    outer, name = step
    inner = _step(outer)
    if inner is None:
        return None
    holder, domain = inner
    if (
        isinstance(holder, Select)
        and not holder.test
        and isinstance(holder.operand, Ident)
        and holder.operand.name == "device"
        and holder.field in _MAPS
    ):
        return _MAPS[holder.field], f"{domain}/{name}"
    return None


def _step(node: Node) -> tuple[Node, str] | None:
    """Return (container, key) when the node looks a constant key up, plainly, optionally or as a test."""
    if isinstance(node, Select):
        return node.operand, node.field
    if (
        isinstance(node, Call)
        and node.function in ("_[_]", "_[?_]")
        and isinstance(node.args[1], Const)
        and type(node.args[1].value) is str
    ):
        return node.args[0], node.args[1].value
    if (
        isinstance(node, Call)
        and node.function == "@in"
        and isinstance(node.args[0], Const)
        and type(node.args[0].value) is str
    ):
        return node.args[1], node.args[0].value
    return None
