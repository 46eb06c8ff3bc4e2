"""What a plan is made of: claims that may move, a goal, and the moves that lead there.

In: values that a caller reads from pods and claims. Out: frozen values.

A move is a restart: the new place is held first, then the pods are evicted, then the claims of the pods that come in their place
get the devices that are held. So the new place must be free while the old one is still taken.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId

Resources: TypeAlias = Mapping[str, int]
"""Amounts of a node's resources by name, `pods` included."""


@dataclass(frozen=True, slots=True)
class Movable:
    """Claims of one node, and the pods that use them: they move together."""

    key: str
    """Unique; decides among equals."""
    node: str
    demand: Demand
    """The claims as the allocator is asked about them; its nodes are those that its pods could go to."""
    holds: Mapping[str, tuple[DeviceResult, ...]]
    """What is held, by the keys of the allocator's state (UIDs of claims)."""
    pods: int = 1
    """How many pods a move restarts."""
    cost: int = 0
    """What these restarts cost (`restartcost.restart_cost`)."""
    requests: Resources = field(default_factory=dict)
    """What its pods request of a node."""

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The devices that it has."""
        return tuple(result.device for results in self.holds.values() for result in results)


@dataclass(frozen=True, slots=True)
class RoomFor:
    """The goal that a demand finds devices."""

    demand: Demand
    requests: Resources = field(default_factory=dict)
    """What its pods request of a node."""


@dataclass(frozen=True, slots=True)
class FreeCards:
    """The goal that more whole cards are free than now."""

    count: int
    """How many more; as many of them as can be, if not all."""
    most_pods: int | None = None
    """How many pods may be restarted for it; None: any number."""
    among: frozenset[DeviceId] | None = None
    """The cards of which they are to be, by the device that takes all of one; None: any."""


Goal: TypeAlias = RoomFor | FreeCards


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a plan."""

    movable: Movable
    decision: Decision
    """Where it goes: what the allocator allocates when it may choose no other devices, one allocation for each of its claims."""

    @property
    def devices(self) -> tuple[DeviceId, ...]:
        """The devices that it gets."""
        return tuple(result.device for each in self.decision.allocations for result in each.results)


@dataclass(frozen=True, slots=True)
class Plan:
    """Moves, in an order in which each finds its new place free; and what is there in the end."""

    moves: tuple[Move, ...]
    served: Decision | None = None
    """The devices of the demand that room was wanted for."""
    cards: tuple[DeviceId, ...] = ()
    """The cards that are free in the end and are not now, by the device that takes all of a card."""
    value: int | None = None
    """What the free devices are worth more than before, in `UNIT`s of a whole device; None: no demand is known, so nothing has a price."""
    proven: bool = False
    """Whether it was tried that no plan restarts fewer pods, or as many at lower cost."""

    @property
    def pods(self) -> int:
        """How many pods it restarts."""
        return sum(each.movable.pods for each in self.moves)

    @property
    def cost(self) -> int:
        """What these restarts cost."""
        return sum(each.movable.cost for each in self.moves)
