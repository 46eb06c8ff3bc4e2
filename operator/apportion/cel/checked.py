"""Checked: a selector that makes sense, and what the checker found out about it."""

from dataclasses import dataclass, field

from apportion.cel.functions import Dispatch
from apportion.cel.syntax import Node
from apportion.cel.types import Type
from apportion.cel.values import Value


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a call means: the forms it may have, and its arguments with a receiver in front."""

    dispatch: Dispatch
    args: tuple[Node, ...]


@dataclass(slots=True)
class Checked:
    """A tree that makes sense. `calls` and `constants` are what the evaluators go by."""

    root: Node
    types: dict[Node, Type] = field(default_factory=dict)
    calls: dict[Node, Resolved] = field(default_factory=dict)
    constants: dict[Node, Value] = field(default_factory=dict)
    """Values that no device changes: names of types, literals, conversions of literals."""
