"""Shape: what demands have in common that are refused together.

In: a demand's query, what its pods and their volumes ask of nodes. Out: a value by which refusals are kept.
"""

from dataclasses import dataclass

from apportion.allocator.rules.query import Query


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the answer to a demand, as long as nothing changes."""

    query: Query
    constraints: tuple[object, ...]
    """What each of its pods asks of its node."""
    volumes: tuple[object, ...] = ()
    """What the volumes of each of its pods ask of nodes."""
    volumes_version: int = 0
    """When that was read."""
    priority: int = 0
    """By that they may use devices that are reserved for others, and nodes on which others have to be preempted."""
    runtime: float | None = None
    """For how many seconds the pods run at most: by that they may use devices that are reserved for others."""

    @property
    def named(self) -> bool:
        """Whether the reason of a refusal names objects of one demand."""
        return any(self.volumes)
