"""Why there is no solution, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that refused for the same reason."""

    nodes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why no node can serve a demand."""

    groups: tuple[NodeGroup, ...]
