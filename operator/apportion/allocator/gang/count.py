"""Whether a gang's members can be served at all, by counting devices: bounds that no search is needed for.

In: a state, members, how many of their pods are enough. Out: the devices that they need at least, and how many are free.
"""

from collections.abc import Sequence
from dataclasses import replace

from apportion.allocator.demand import Demand
from apportion.allocator.devicecount import free_devices, least_devices
from apportion.allocator.gang.members import DeviceShortage, Member, MemberDemands
from apportion.allocator.state import State

MOST_KINDS = 64
"""Kinds of members for which free devices are counted before members are tried."""


def kind_of(members: Sequence[Member], index: int) -> object:
    """Return what a member has in common with those that could stand for it."""
    kind = members[index].kind
    return index if kind is None else (kind,)


def first_of_kinds(members: Sequence[Member]) -> dict[object, int]:
    """Return the first member of each kind."""
    first: dict[object, int] = {}
    for index in range(len(members)):
        first.setdefault(kind_of(members, index), index)
    return first


def widest(demands: MemberDemands, member: int) -> Demand | None:
    """Return a member's demand, on all nodes where others may yet let it go; None: no node fits its pods now."""
    demand = demands.of(member)
    return replace(demand, nodes=None) if demand is not None and demands.awaits(member) else demand


def hardest_first(state: State, members: Sequence[Member], demands: MemberDemands) -> list[int]:
    """Return the members in the order in which they are the hardest to place: those that need the most devices, then those for which the fewest nodes are left.

    In the order given where there are too many kinds. Raises BrokenInput as `count_devices`.
    """
    first = first_of_kinds(members)
    order = [*range(len(members))]
    if not 1 < len(first) <= MOST_KINDS:
        return order
    rows: dict[object, tuple[int, int]] = {}
    for kind, index in first.items():
        demand = widest(demands, index)
        nodes = len(state.names() if demand is None or demand.nodes is None else demand.nodes)
        rows[kind] = (-least_devices(state, demand) if demand is not None else 0), nodes
    return sorted(order, key=lambda index: rows[kind_of(members, index)])


def count_devices(
    state: State, members: Sequence[Member], demands: MemberDemands, *, enough: int
) -> DeviceShortage | int | None:
    """Return the shortage if fewer devices are free than enough members need, else how many more are free.

    None where counting says nothing: too many kinds, devices that serve several claims, members that fit no node at all.
    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    first = first_of_kinds(members)
    if len(first) > MOST_KINDS:
        return None
    asked = {kind: widest(demands, index) for kind, index in first.items()}
    least = {kind: least_devices(state, demand) for kind, demand in asked.items() if demand is not None}
    # The fewest devices for enough pods: members that need the fewest a pod, the last of them in part.
    rows = sorted(
        (least[kind] / member.pods, least[kind], member.pods)
        for index, member in enumerate(members)
        if (kind := kind_of(members, index)) in least
    )
    needed, missing = 0, enough
    for _, devices, pods in rows:
        needed += devices if pods <= missing else devices * missing // pods
        missing -= min(pods, missing)
    if missing:
        return None  # some members fit no node at all, which trying them tells
    free = free_devices(state, [demand for demand in asked.values() if demand is not None])
    if free is None:
        return None
    return DeviceShortage(needed, free) if free < needed else free - needed
