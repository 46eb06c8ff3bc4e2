"""What a selector can read of a device, found without evaluating it.

In: a checked tree. Out: the (kind, full name) pairs that look-ups of constant names can touch; None when the selector uses
`device`, a whole map or a computed name, and so may read anything. A cache may use these pairs as a key.

A path is the tuple of keys after `device`, however it is written, also through `cel.bind`:
`device.attributes["d"].x` is ("attributes", "d", "x").
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from apportion.cel.check.checked import Checked
from apportion.cel.syntax.tree import Call, Const, Ident, Macro, Node, Select, children

Path: TypeAlias = tuple[str, ...]
Bound: TypeAlias = Mapping[str, Path | None]
"""Variables in scope: those that stand for a path, and (None) those that hold anything else."""

_KINDS: Final = {"attributes": "attribute", "capacity": "capacity"}


def path_of(node: Node, bound: Bound) -> Path | None:
    """Return the path that this node looks up, None for other nodes and computed names."""
    keys: list[str] = []
    while True:
        if isinstance(node, Ident):
            if node.name in bound:
                start = bound[node.name]
                return None if start is None else (*start, *reversed(keys))
            return tuple(reversed(keys)) if node.name == "device" else None
        step = _last_step(node)
        if step is None or (isinstance(node, Select) and (node.test or node.optional)):
            return None
        if isinstance(node, Call) and node.function != "_[_]":
            return None
        node, key = step
        keys.append(key)


def _last_step(node: Node) -> tuple[Node, str] | None:
    """Return (container, key) when the node looks up or tests a constant key, also optionally."""
    if isinstance(node, Select):
        return node.operand, node.field
    if isinstance(node, Call) and node.function in ("_[_]", "_[?_]"):
        container, key = node.args
    elif isinstance(node, Call) and node.function == "@in":
        key, container = node.args
    else:
        return None
    return (container, key.value) if isinstance(key, Const) and type(key.value) is str else None


def entry_of(node: Node, bound: Bound) -> tuple[str, str] | None:
    """Return (kind, full name) when the node reads or tests one attribute or capacity."""
    step = _last_step(node)
    if step is None:
        return None
    holder = path_of(step[0], bound)
    if holder is None or len(holder) != 2 or holder[0] not in _KINDS or "/" in holder[1] or "/" in step[1]:
        return None
    return _KINDS[holder[0]], f"{holder[1]}/{step[1]}"


Reads: TypeAlias = frozenset[tuple[str, str]] | None


def reads(checked: Checked) -> Reads:
    """Return what the selector can read; kinds are "attribute", "capacity" and "field" (driver and the like)."""
    found: set[tuple[str, str]] = set()
    waiting: list[tuple[Node, dict[str, Path | None]]] = [(checked.root, {})]
    while waiting:
        node, bound = waiting.pop()
        entry = entry_of(node, bound)
        if entry is not None:
            found.add(entry)
            continue
        path = path_of(node, bound)
        if path is not None:
            if path[:1] in ((), ("attributes",), ("capacity",)):
                return None
            found.add(("field", path[0]))
        elif isinstance(node, Macro):
            start = path_of(node.source, bound) if node.kind == "bind" else None
            if start is None or len(start) != 2:
                waiting.append((node.source, bound))
                start = None
            inner = {**bound, **dict.fromkeys(node.names, start)}
            waiting.extend((body, inner) for body in node.bodies)
        elif not isinstance(node, Ident):
            waiting.extend((child, bound) for child in children(node))
    return frozenset(found)
