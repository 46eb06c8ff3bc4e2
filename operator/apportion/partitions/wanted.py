"""Wanted: which Partition objects should exist, and held by whom.

In: the snapshot and the clock. Out: actions that bring the objects there. Wanted partitions are a function of live
allocations, layouts and warm counts, so a crash between writing an allocation and creating its Partition heals by
itself. Idle partitions are kept for the policy's idleTimeout and give way to whatever needs their room.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from apportion.api.contract import AGENT_FINALIZER, STATIC_SUFFIX
from apportion.api.metadata import ObjectMeta
from apportion.api.partition import (
    Holder,
    HolderKind,
    Origin,
    Partition,
    PartitionSpec,
    Phase,
    Placement,
)
from apportion.cluster.cut import Cut, cut
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.partitions.card import Card, card, device_id, is_static

_LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Create:
    """Make a Partition object."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class SetHolder:
    """Change who holds a partition; None makes it idle."""

    partition: Partition
    holder: Holder | None


@dataclass(frozen=True, slots=True)
class Delete:
    """Have a partition removed from the hardware."""

    partition: Partition
    reason: str


Action = Create | SetHolder | Delete


class Wanted:
    """Compares what should be with what is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._patience: dict[str, float] = {}
        """Idle timeout of the policy that the last holder obeyed, in seconds, by Partition UID."""

    def actions(self, snapshot: Snapshot) -> list[Action]:
        """Return what to do about the partitions of claims and the warm ones; layouts are planned elsewhere."""
        holders = dict(_held(snapshot))
        live = {device_id(p): p for p in snapshot.partitions.values() if not is_static(p)}
        found: list[Action] = []
        for device, claim in holders.items():
            found.extend(_for_claim(device, claim, live.get(device), snapshot))
        self._patience = dict(self._patiences(snapshot, holders, live))
        idle: dict[str, float] = {}
        for device, partition in live.items():
            if device in holders or partition.metadata.deletion_timestamp is not None:
                continue
            if partition.spec.holder is not None:
                found.append(SetHolder(partition, None))
            elif not partition.status.prepared_by:
                uid = partition.metadata.uid
                idle[uid] = self._idle_since.get(uid, self._clock())
        self._idle_since = idle
        found.extend(self._idle_actions(snapshot, holders, live))
        return found

    def _patiences(
        self, snapshot: Snapshot, holders: Mapping[DeviceId, Claim], live: Mapping[DeviceId, Partition]
    ) -> Iterator[tuple[str, float]]:
        for device, partition in live.items():
            uid = partition.metadata.uid
            if device in holders:
                policy = snapshot.management.policy(holders[device])
                yield uid, policy.partitions.idle_timeout.total_seconds()
            elif uid in self._patience:
                yield uid, self._patience[uid]

    def _idle_actions(
        self, snapshot: Snapshot, holders: Mapping[DeviceId, Claim], live: Mapping[DeviceId, Partition]
    ) -> Iterator[Action]:
        idle = [p for p in live.values() if p.metadata.uid in self._idle_since]
        in_the_way = set()
        for where in list(snapshot.devices.partitioned):
            found = card(snapshot, where)
            for partition in _in_the_way(found, holders, self._idle_since) if found else ():
                in_the_way.add(partition.metadata.uid)
                yield Delete(partition, "its room is needed")
        keep, longest = _warm(snapshot), _idle_timeout(snapshot)
        for partition in sorted(idle, key=lambda p: (-self._idle_since[p.metadata.uid], p.metadata.name)):
            uid, profile = partition.metadata.uid, partition.spec.profile
            if uid in in_the_way:
                continue
            if partition.status.phase == Phase.FAILED:
                yield Delete(partition, "it could not be cut")
            elif keep.get(profile, 0) > 0:
                keep[profile] -= 1
            elif self._clock() - self._idle_since[uid] >= self._patience.get(uid, longest):
                yield Delete(partition, "idle for too long")
        yield from _warm_up(keep, snapshot, live)


def _held(snapshot: Snapshot) -> Iterator[tuple[DeviceId, Claim]]:
    """Yield every device that a live allocation names; the first claim by age where two do."""
    seen = set()
    allocated = snapshot.claims_of(snapshot.claim_index.allocated)
    for claim in sorted(allocated, key=lambda c: (c.created, c.uid)):
        for result in claim.allocation.results if claim.allocation else ():
            if not result.admin_access and result.device not in seen:
                seen.add(result.device)
                yield result.device, claim


def _for_claim(
    device: DeviceId, claim: Claim, partition: Partition | None, snapshot: Snapshot
) -> Iterator[Action]:
    holder = Holder(kind=HolderKind.CLAIM, namespace=claim.namespace, name=claim.name, uid=claim.uid)
    if partition is None:
        published = snapshot.devices.published(device)
        part = cut(published[0]) if published else None
        if published is not None and part is not None:
            node = published[1]
            yield Create(partition_for(part, node, Origin.CLAIM, holder))
    elif partition.metadata.deletion_timestamp is None and partition.spec.holder != holder:
        yield SetHolder(partition, holder)


def partition_for(part: Cut, node: str, origin: Origin, holder: Holder | None) -> Partition:
    """Build the Partition object for one way to cut a card."""
    device = part.device.name + (STATIC_SUFFIX if origin == Origin.LAYOUT else "")
    return Partition(
        metadata=ObjectMeta(name=object_name(node, device), finalizers=(AGENT_FINALIZER,)),
        spec=PartitionSpec(
            node_name=node,
            driver=part.device.driver,
            pool=part.device.pool,
            device=device,
            parent=part.parent,
            profile=part.profile,
            placement=None
            if part.start is None or part.size is None
            else Placement(start=part.start, size=part.size),
            origin=origin,
            holder=holder,
        ),
    )


def object_name(node: str, device: str) -> str:
    """Return the name of a device's Partition object: the same for every attempt, so that none is made twice."""
    name = f"{node}-{device}"
    if len(name) <= _LONGEST_NAME:
        return name
    mark = hashlib.sha256(name.encode()).hexdigest()[:10]
    return f"{name[: _LONGEST_NAME - 11]}-{mark}"


def _in_the_way(on: Card, holders: Mapping[DeviceId, Claim], idle: Mapping[str, float]) -> list[Partition]:
    """Return idle partitions that have to go before what claims hold on this card fits; the oldest go first."""
    standing = [p for p in on.partitions if p.metadata.deletion_timestamp is None]
    needed = {p.spec.device for p in standing if p.metadata.uid not in idle}
    needed |= {
        name
        for name in (on.whole.name, *on.cuts)
        if DeviceId(on.whole.driver, on.whole.pool, name) in holders
    }
    spare = sorted((p for p in standing if p.metadata.uid in idle), key=lambda p: idle[p.metadata.uid])
    going = [p for p in spare if not on.fits(needed | {p.spec.device})]
    staying = [p for p in spare if p not in going]
    while staying and not on.fits(needed | {p.spec.device for p in staying}):
        going.append(staying.pop(0))
    return going


def _warm(snapshot: Snapshot) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for policy in snapshot.policies.values():
        for entry in policy.spec.partitions.warm:
            wanted[entry.profile] = max(wanted.get(entry.profile, 0), entry.count)
    return wanted


def _idle_timeout(snapshot: Snapshot) -> float:
    """Return the longest idle timeout of all policies in force, in seconds: for those whose holder we never saw."""
    specs = snapshot.management.policies.values()
    return max((spec.partitions.idle_timeout.total_seconds() for spec in specs), default=300.0)


def _warm_up(
    missing: Mapping[str, int], snapshot: Snapshot, live: Mapping[DeviceId, Partition]
) -> Iterator[Action]:
    """Yield partitions to cut ahead of demand, where they fit beside everything that is there."""
    left = {profile: count for profile, count in missing.items() if count > 0}
    for where in sorted(snapshot.devices.cards) if left else ():
        on = card(snapshot, where)
        if on is None or not any(left.values()):
            continue
        taken = {p.spec.device for p in on.partitions}
        taken |= {
            name
            for name in (on.whole.name, *on.cuts)
            if snapshot.state.holders(DeviceId(on.whole.driver, on.whole.pool, name))
        }
        for name, part in sorted(on.cuts.items()):
            if left.get(part.profile, 0) > 0 and part.device.id not in live and on.fits(taken | {name}):
                taken.add(name)
                left[part.profile] -= 1
                yield Create(partition_for(part, on.node, Origin.WARM, None))
