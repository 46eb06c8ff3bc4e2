"""DynamicPartitions: the Partition objects that claims and warm counts want, and their holders.

In: the snapshot and the clock. Out: actions. What is wanted is a function of live allocations and warm counts, so a crash
between writing an allocation and creating its Partition heals by itself. Idle partitions are kept for the policy's
idleTimeout and deleted before it when something else needs their room.
"""

from collections.abc import Callable, Iterator, Mapping

from apportion.api.partition import Holder, HolderKind, Origin, Partition, Phase
from apportion.cluster.deviceindex import device_of
from apportion.cluster.publishedpartition import published_partition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Action, Create, Delete, SetHolder, partition_for
from apportion.partitions.card import PartitionableCard, is_static, partitionable_card


class DynamicPartitions:
    """Compares the wanted Partition objects of claims and warm counts with those that exist."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle_since: dict[str, float] = {}
        self._idle_timeouts: dict[str, float] = {}
        """Idle timeout of the policy that the last holder obeyed, in seconds, by Partition UID."""

    def actions(self, snapshot: Snapshot) -> list[Action]:
        """Return what to do about all partitions but those of layouts."""
        holders = dict(_held(snapshot))
        live = {device_of(p): p for p in snapshot.partitions.values() if not is_static(p)}
        found: list[Action] = []
        for device, claim in holders.items():
            found.extend(_for_claim(device, claim, live.get(device), snapshot))
        policies = {
            partition.metadata.uid: snapshot.managed.policy(holders[device])
            for device, partition in live.items()
            if device in holders
        }
        kept = {p.metadata.uid for p in live.values()} & self._idle_timeouts.keys()
        self._idle_timeouts = {uid: self._idle_timeouts[uid] for uid in kept} | {
            uid: policy.partitions.idle_timeout.total_seconds() for uid, policy in policies.items()
        }
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

    def _idle_actions(
        self, snapshot: Snapshot, holders: Mapping[DeviceId, Claim], live: Mapping[DeviceId, Partition]
    ) -> Iterator[Action]:
        idle = [p for p in live.values() if p.metadata.uid in self._idle_since]
        blocking = set()
        for where in list(snapshot.devices.partitioned):
            found = partitionable_card(snapshot, where)
            for partition in _blocking(found, holders, self._idle_since) if found else ():
                blocking.add(partition.metadata.uid)
                yield Delete(partition, "its room is needed")
        keep, longest = _warm(snapshot), _idle_timeout(snapshot)
        for partition in sorted(idle, key=lambda p: (-self._idle_since[p.metadata.uid], p.metadata.name)):
            uid, profile = partition.metadata.uid, partition.spec.profile
            if uid in blocking:
                continue
            if partition.status.phase == Phase.FAILED:
                yield Delete(partition, "it could not be cut")
            elif keep.get(profile, 0) > 0:
                keep[profile] -= 1
            elif self._clock() - self._idle_since[uid] >= self._idle_timeouts.get(uid, longest):
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
        part = published_partition(published[0]) if published else None
        if published is not None and part is not None:
            node = published[1]
            yield Create(partition_for(part, node, Origin.CLAIM, holder))
    elif partition.metadata.deletion_timestamp is None and partition.spec.holder != holder:
        yield SetHolder(partition, holder)


def _blocking(
    card: PartitionableCard, holders: Mapping[DeviceId, Claim], idle: Mapping[str, float]
) -> list[Partition]:
    """Return idle partitions that have to go before what claims hold on this card fits; the oldest go first."""
    live = [p for p in card.partitions if p.metadata.deletion_timestamp is None]
    needed = {p.spec.device for p in live if p.metadata.uid not in idle}
    needed |= {name for name in card.names if card.device(name) in holders}
    idling = sorted((p for p in live if p.metadata.uid in idle), key=lambda p: idle[p.metadata.uid])
    going = [p for p in idling if not card.fits(needed | {p.spec.device})]
    staying = [p for p in idling if p not in going]
    while staying and not card.fits(needed | {p.spec.device for p in staying}):
        going.append(staying.pop(0))
    return going


def _warm(snapshot: Snapshot) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for policy in snapshot.policies.values():
        for entry in policy.spec.partitions.warm:
            wanted[entry.profile] = max(wanted.get(entry.profile, 0), entry.count)
    return wanted


def _idle_timeout(snapshot: Snapshot) -> float:
    """Return the longest idle timeout of all policies in force, in seconds: for partitions whose holder we never saw."""
    specs = snapshot.managed.policies.values()
    return max((spec.partitions.idle_timeout.total_seconds() for spec in specs), default=300.0)


def _warm_up(
    missing: Mapping[str, int], snapshot: Snapshot, live: Mapping[DeviceId, Partition]
) -> Iterator[Action]:
    """Yield partitions to cut ahead of demand, where they fit beside everything that is there."""
    left = {profile: count for profile, count in missing.items() if count > 0}
    for where in sorted(snapshot.devices.cards) if left else ():
        card = partitionable_card(snapshot, where)
        if card is None or not any(left.values()):
            continue
        taken = {p.spec.device for p in card.partitions}
        taken |= card.held(snapshot)
        for name, part in sorted(card.published.items()):
            if left.get(part.profile, 0) > 0 and part.device.id not in live and card.fits(taken | {name}):
                taken.add(name)
                left[part.profile] -= 1
                yield Create(partition_for(part, card.node, Origin.WARM, None))
