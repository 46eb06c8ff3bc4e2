"""Constant paths into the device: `device.attributes["d"].x`, however it is spelled, also through `cel.bind`.

A path is the tuple of keys after `device`: ("attributes", "d", "x").
"""

from collections.abc import Mapping
from typing import Final, TypeAlias

from apportion.cel.syntax import Call, Const, Ident, Node, Select

Path: TypeAlias = tuple[str, ...]
Bound: TypeAlias = Mapping[str, Path | None]
"""Variables in scope: those that stand for a path, and (None) those that hold anything else."""

KINDS: Final = {"attributes": "attribute", "capacity": "capacity"}


def path_of(node: Node, bound: Bound) -> Path | None:
    """Return the path that this node looks up, None when it is none or not constant."""
    keys: list[str] = []
    while True:
        if isinstance(node, Ident):
            if node.name in bound:
                start = bound[node.name]
                return None if start is None else (*start, *reversed(keys))
            return tuple(reversed(keys)) if node.name == "device" else None
        step = last_step(node)
        if step is None or (isinstance(node, Select) and (node.test or node.optional)):
            return None
        if isinstance(node, Call) and node.function != "_[_]":
            return None
        node, key = step
        keys.append(key)


def last_step(node: Node) -> tuple[Node, str] | None:
    """Return (container, key) when the node looks a constant key up: plainly, optionally, or as a test."""
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
    """Return (kind, full name) when the node reads, or tests for, one attribute or capacity."""
    step = last_step(node)
    if step is None:
        return None
    holder = path_of(step[0], bound)
    if holder is None or len(holder) != 2 or holder[0] not in KINDS or "/" in holder[1] or "/" in step[1]:
        return None
    return KINDS[holder[0]], f"{holder[1]}/{step[1]}"
