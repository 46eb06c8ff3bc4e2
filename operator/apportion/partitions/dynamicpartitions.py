"""DynamicPartitions: the Partition objects that claims and warm counts want, and their holders.

In: the snapshot and the clock. Out: actions. Live allocations and warm counts alone say which partitions
there should be, so a crash between writing an allocation and creating its Partition heals by itself. Idle
partitions are kept for the policy's idleTimeout and deleted before it when something else needs their
room. Only cards of which something changed are looked at, and those whose actions are not yet seen done.
"""

from collections.abc import Callable, Collection, Container, Iterator, Mapping
from itertools import islice
from typing import Final

import structlog

from apportion.api.contract import SHARED
from apportion.api.partition import Holder, HolderKind, Origin, Partition, Phase
from apportion.cluster.indexes.deviceindex import card_of, device_of, first_of
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import Device, DeviceId
from apportion.errors import BrokenInput
from apportion.partitions.actions import Action, Create, Delete, SetHolder, partition_for
from apportion.partitions.card import PartitionableCard, is_static, partitionable_card
from apportion.partitions.closeddevices import ClosedDevices
from apportion.partitions.idlepartitions import IdlePartition, IdlePartitions
from apportion.partitions.opennodes import OpenNodes
from apportion.partitions.warmroom import WarmRoom

_log = structlog.get_logger()
_AT_ONCE: Final = 128
"""Cards that are looked at before others run: some hundredths of a millisecond each."""


class DynamicPartitions:
    """Compares the wanted Partition objects of claims and warm counts with those that exist."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._idle = IdlePartitions(clock)
        self._open = OpenNodes()
        self._closed = ClosedDevices()
        self._cursor = -1
        """How far the changes of cards were read."""
        self._due: dict[DeviceId, None] = {}
        """Cards to look at."""
        self._unfinished: dict[DeviceId, list[str]] = {}
        """Cards whose last look found something to do, and the names of the Partitions that it is about."""
        self._holders: dict[DeviceId, dict[str, Claim | None]] = {}
        """By card and Partition (UID): the claim that held it last."""
        self._room = WarmRoom()
        self._held_read = -1
        """How far changes of who holds devices were read."""
        self._spoilt: set[DeviceId] = set()
        """Cards with a partition that was to be kept warm and could not be cut; it stays as long as its profile is kept warm."""

    def actions(self, snapshot: Snapshot, ongoing: Container[str] = ()) -> list[Action]:
        """Return all that `steps` yields."""
        return [action for actions in self.steps(snapshot, ongoing) for action in actions]

    def steps(self, snapshot: Snapshot, ongoing: Container[str] = ()) -> Iterator[list[Action]]:
        """Yield what to do about all partitions but those of layouts, of a few cards each; others may run once that has begun.

        `ongoing`: names of Partitions about which something is being done; their cards are looked at again if they change, or afterwards.
        """
        opened, closed = self._open.follow(snapshot)
        if self._idle.follow(snapshot):
            self._room.forget()
        self._cursor, changed = snapshot.devices.changes.since(self._cursor)
        if changed is None:
            changed = [*snapshot.devices.cards, *snapshot.devices.partitioned, *self._holders]
        cards = {*changed, *self._spoilt, *self._closed.follow(snapshot)}
        cards.update(card_of(each) for name in opened | closed for each in snapshot.devices.on_node(name))
        cards |= {c for c, names in self._unfinished.items() if not any(name in ongoing for name in names)}
        if opened:
            published = snapshot.devices.published
            cards |= {card for card in snapshot.devices.cards if (published(card) or ("", ""))[1] in opened}
        # Both at once: nothing is forgotten if nobody asks for the rest of this.
        self._due |= dict.fromkeys(cards)
        self._room.put(cards)
        while self._due:
            found: list[Action] = []
            for card in tuple(islice(self._due, _AT_ONCE)):
                del self._due[card]
                todo = list(self._look(card, snapshot))
                self._unfinished.pop(card, None)
                if todo:
                    self._unfinished[card] = [action.partition.metadata.name for action in todo]
                found += todo
            yield found
        last: list[Action] = [
            Delete(partition, "idle for too long") for partition in self._idle.due(snapshot)
        ]
        for created in self._warm_up(snapshot):
            if created is None:
                yield last
                last = []
                continue
            card = snapshot.devices.card(device_of(created.partition))
            self._unfinished.setdefault(card, []).append(created.partition.metadata.name)
            last.append(created)
        yield last

    def short(self) -> dict[str, int]:
        """Return how many partitions are missing for the warm counts that no card has room for, by profile."""
        missing = self._idle.missing().items()
        return {profile: count for profile, count in missing if self._room.first(profile) is None}

    def _look(self, where: DeviceId, snapshot: Snapshot) -> Iterator[Action]:
        """Yield what claims want of one card, and what its idle partitions are in the way of."""
        devices = snapshot.devices
        found: dict[DeviceId, list[Partition]] = {}
        for partition in devices.partitions_on(where).values():
            if not is_static(partition):
                found.setdefault(device_of(partition), []).append(partition)
        parts = (part.device.id for part in devices.published_partitions(where).values())
        wanted = {device: claim for device in {where, *parts, *found} if (claim := _holder(device, snapshot))}
        live = {
            device: first
            for device, several in found.items()
            if (first := first_of(several, wanted[device].uid if device in wanted else ""))
        }
        for device, claim in sorted(wanted.items()):
            yield from _for_claim(device, claim, live.get(device), snapshot)
        before = self._holders.pop(where, {})
        last = {p.metadata.uid: wanted.get(d, before.get(p.metadata.uid)) for d, p in live.items()}
        if last:
            self._holders[where] = last
        for uid in before.keys() - last.keys():
            self._idle.put(uid, None, snapshot)
        idle: dict[str, float] = {}
        for device, partition in live.items():
            uid = partition.metadata.uid
            if device not in wanted and partition.metadata.deletion_timestamp is None:
                if partition.spec.holder is not None:
                    yield SetHolder(partition, None)
                elif not partition.status.prepared_by:
                    since = self._idle.since(uid)
                    idle[uid] = since if since is not None else self._clock()
                    continue
            self._idle.put(uid, None, snapshot)
        card = partitionable_card(snapshot, where) if idle else None
        blocking = {p.metadata.uid for p in _blocking(card, wanted, idle)} if card is not None else set()
        self._spoilt.discard(where)
        for partition in live.values():
            uid = partition.metadata.uid
            if uid not in idle:
                continue
            leaving = _failed(partition) or uid in blocking
            published = snapshot.devices.device(device_of(partition))
            is_closed = published is not None and published in self._closed
            is_open = partition.spec.node_name in self._open and not is_closed
            self._idle.put(uid, IdlePartition(partition, idle[uid], last[uid], leaving, is_open), snapshot)
            warm = partition.spec.origin == Origin.WARM and self._idle.is_warm(partition.spec.profile)
            if leaving and warm and uid not in blocking:
                # Made anew it would fail anew, at once and for ever, and no other card would be tried. Its agent tries it from time to time.
                self._spoilt.add(where)
            elif leaving:
                yield Delete(
                    partition, "it could not be cut" if uid not in blocking else "its room is needed"
                )

    def _warm_up(self, snapshot: Snapshot) -> Iterator[Create | None]:
        """Yield partitions to cut ahead of demand, where they fit beside everything that is there, and None where others may run."""
        self._held_read, held = snapshot.state.held_or_released.since(self._held_read)
        if held is None:
            self._room.forget()
        missing, made, looked = self._idle.missing(), dict[DeviceId, set[str]](), 0
        self._room.put(map(snapshot.devices.card, held or ()))
        self._room.look_for(missing, lambda: snapshot.devices.cards)
        for profile, count in sorted(missing.items()):
            left = count
            while left and (where := self._room.first(profile)) is not None:
                looked += 1
                if looked % _AT_ONCE == 0:
                    yield None
                taken = made.setdefault(where, set())
                for part, node in self._room_on(where, profile, taken, snapshot):
                    taken.add(part.device.name)
                    yield from _create(part, node, Origin.WARM, None)
                    left -= 1
                    if not left:
                        break
                else:
                    self._room.drop(profile)

    def _room_on(
        self, where: DeviceId, profile: str, made: Collection[str], snapshot: Snapshot
    ) -> Iterator[tuple[PublishedPartition, str]]:
        """Yield one after the other what a card has room for, with its node; `made`: what is about to be cut there, which grows meanwhile."""
        card = partitionable_card(snapshot, where)
        if card is None or card.node not in self._open:
            return
        there = {p.spec.device for p in card.partitions} | card.held(snapshot)
        if any(p.spec.profile == profile for p in card.partitions if _failed(p)):
            return
        for name, part in sorted(card.published.items()):
            if part.profile != profile or name in made or part.device in self._closed:
                continue
            free = snapshot.devices.partition(part.device.id) is None
            if free and card.fits({*there, *made, name}):
                yield part, card.node


def _failed(partition: Partition) -> bool:
    """Say whether its agent could not cut it."""
    return partition.status.phase == Phase.FAILED


def _shared(device: Device) -> bool:
    """Say whether the device is part of a card that serves several claims uncut."""
    return any(taint.key == SHARED for taint in device.taints)


def _holder(device: DeviceId, snapshot: Snapshot) -> Claim | None:
    """Return the claim whose live allocation names a device; the first by age where two do."""
    claims = snapshot.claims_of(snapshot.claim_index.holders(device))
    return min(claims, key=lambda claim: (claim.created, claim.uid), default=None)


def _for_claim(
    device: DeviceId, claim: Claim, partition: Partition | None, snapshot: Snapshot
) -> Iterator[Action]:
    holder = Holder(kind=HolderKind.CLAIM, namespace=claim.namespace, name=claim.name, uid=claim.uid)
    if partition is None:
        published = snapshot.devices.published(device)
        part = snapshot.devices.published_partition(device)
        # Devices of other drivers may look like ours; no agent would cut them by a Partition.
        if published is not None and part is not None and device.driver in snapshot.drivers:
            yield from _create(part, published[1], Origin.CLAIM, holder)
    elif partition.metadata.deletion_timestamp is None and partition.spec.holder != holder:
        yield SetHolder(partition, holder)


def _create(part: PublishedPartition, node: str, origin: Origin, holder: Holder | None) -> Iterator[Create]:
    """Yield how to make a partition; nothing for one that no Partition can stand for, which holds up no others."""
    try:
        made = partition_for(part, node, origin, holder)
    except BrokenInput as error:
        _log.warning("partition.impossible", device=str(part.device.id), error=str(error))
        return
    yield Create(made)


def _blocking(
    card: PartitionableCard, holders: Mapping[DeviceId, Claim], idle: Mapping[str, float]
) -> list[Partition]:
    """Return idle partitions that have to go before what claims hold on this card fits; the oldest go first.

    All of them go where the card serves several claims: what it is cut into serves nobody there.
    """
    if any(_shared(part.device) for part in card.published.values()):
        return [p for p in card.partitions if p.metadata.uid in idle]
    live = [p for p in card.partitions if p.metadata.deletion_timestamp is None]
    needed = {p.spec.device for p in live if p.metadata.uid not in idle}
    needed |= {name for name in card.names if card.device(name) in holders}
    idling = sorted((p for p in live if p.metadata.uid in idle), key=lambda p: idle[p.metadata.uid])
    going = [p for p in idling if not card.fits(needed | {p.spec.device})]
    staying = [p for p in idling if p not in going]
    while staying and not card.fits(needed | {p.spec.device for p in staying}):
        going.append(staying.pop(0))
    return going
