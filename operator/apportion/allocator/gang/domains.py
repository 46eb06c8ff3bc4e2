"""Domains above the node: nodes with equal values of a label, and how many members of a gang each could take.

In: a state, members, their demands. Out: domains of a label within some nodes; bounds that no search is needed for.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.devicecount import free_by_node, least_devices
from apportion.allocator.gang.count import first_of_kinds, widest
from apportion.allocator.gang.members import Member, MemberDemands
from apportion.allocator.state import State

_UNBOUNDED = 1_000_000
"""Members that a node could take by its devices, where counting says nothing."""


@dataclass(frozen=True, slots=True)
class GroupRung:
    """One level of closeness of nodes."""

    label: str
    """Key of a node label; nodes without it are in no domain."""
    required: bool = False
    """Whether all members have to be in one domain."""


@dataclass(frozen=True, slots=True)
class GroupLadder:
    """Levels of closeness of a gang's nodes, closest first, and where pods of the gang run already."""

    rungs: tuple[GroupRung, ...] = ()
    occupied: frozenset[str] = frozenset()
    """Nodes of pods that have what they need: the others have to be close to these."""

    @property
    def required(self) -> tuple[str, ...]:
        """The labels in whose values all members have to agree."""
        return tuple(rung.label for rung in self.rungs if rung.required)

    @property
    def closer(self) -> tuple[str, ...]:
        """The labels by which members are kept close within what is required, closest first."""
        first = next((number for number, rung in enumerate(self.rungs) if rung.required), len(self.rungs))
        return tuple(rung.label for rung in self.rungs[:first])


def domains_of(
    state: State, labels: Sequence[str], nodes: frozenset[str] | None = None
) -> dict[tuple[str, ...], frozenset[str]]:
    """Return the nodes by their values of the labels; nodes that lack one are left out."""
    found: dict[tuple[str, ...], set[str]] = {}
    for name in state.names() if nodes is None else state.names().keys() & nodes:
        own = state.names()[name].labels
        values = tuple(own.get(label, "") for label in labels)
        if all(values):
            found.setdefault(values, set()).add(name)
    return {values: frozenset(names) for values, names in sorted(found.items())}


@dataclass(frozen=True, slots=True)
class KindRoom:
    """What there is for members of one kind while none of the gang has devices."""

    pods: int
    """Pods of a member."""
    least: int
    """The fewest devices that a member needs."""
    members: Mapping[str, int]
    """How many members each node could take, at most."""
    free: Mapping[str, int] | None
    """The devices of each node that a member could have, as bits; None where devices may serve several."""


@dataclass(frozen=True, slots=True)
class DomainRoom:
    """How many members each node could take while none of them has devices, at most."""

    by_kind: Mapping[object, KindRoom]

    def pods_in(self, nodes: frozenset[str], waiting: Mapping[object, int]) -> tuple[int, int]:
        """Return how many pods the nodes could take of so many members that wait, by kind, and of any number of them; at most."""
        most = {kind: count for kind, count in waiting.items() if count}
        kinds = [self.by_kind[kind] for kind in most]
        of_kinds = sum(
            min(count, sum(room.members.get(name, 0) for name in nodes)) * room.pods
            for room, count in zip(kinds, most.values(), strict=True)
        )
        on_nodes = sum(_pods_on(name, kinds) for name in nodes)
        return min(of_kinds, on_nodes), on_nodes


def _pods_on(node: str, kinds: Sequence[KindRoom]) -> int:
    """Return how many pods of members of these kinds a node could take together, at most."""
    here = [each for each in kinds if each.members.get(node)]
    alone = sum(each.members[node] * each.pods for each in here)
    if len(here) < 2:
        return alone
    devices = 0
    for each in here:
        if each.free is None or not each.least:
            return alone
        devices |= each.free[node]
    # Kinds that want the same devices share them; members of other devices have their own.
    return min(alone, max(devices.bit_count() * each.pods // each.least for each in here))


def room_of(
    state: State, members: Sequence[Member], demands: MemberDemands
) -> Generator[None, None, DomainRoom]:
    """Return how many members each node could take; yields between kinds.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    by_kind: dict[object, KindRoom] = {}
    for kind, index in first_of_kinds(members).items():
        demand, room = widest(demands, index), dict[str, int]()
        if demand is None and not demands.awaits(index):
            by_kind[kind] = KindRoom(members[index].pods, 0, room, None)
            continue
        least, free = (least_devices(state, demand), free_by_node(state, demand)) if demand else (0, None)
        for name in demand.nodes if demand is not None and demand.nodes is not None else state.names():
            if name in state.names():
                devices = _UNBOUNDED if free is None or not least else free[name].bit_count() // least
                room[name] = min(devices, demands.room(index, name))
        by_kind[kind] = KindRoom(members[index].pods, least, room, free)
        yield
    return DomainRoom(by_kind)
