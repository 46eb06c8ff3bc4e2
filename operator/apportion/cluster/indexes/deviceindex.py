"""DeviceIndex: published devices, the partitions that slices offer on each card, and its Partition objects.

In: slices and Partitions as they come and go. Out: look-ups by device and by card, and the cards that changed,
without going through all slices or all Partitions.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from apportion.allocator.changelog import ChangeLog
from apportion.api.contract import STATIC_SUFFIX
from apportion.api.partition import HolderKind, Origin, Partition, Phase
from apportion.cluster.changes import most_changes
from apportion.cluster.indexes.publishednames import PublishedNames
from apportion.cluster.publishedpartition import PublishedPartition, published_partition
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import Slice

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


class _Published(NamedTuple):
    slice: str
    """Its UID."""
    device: Device
    node: str | None
    part: PublishedPartition | None
    """The partition that the device stands for."""


class DeviceIndex:
    """Devices and partitions by name and by card."""

    def __init__(self) -> None:
        self._devices: dict[DeviceId, _Published] = {}
        self._hidden: dict[DeviceId, dict[str, _Published]] = {}
        """Devices that a slice seen later has, too, as other slices (UIDs) have them: while a pool is published anew."""
        self._published: dict[DeviceId, dict[str, PublishedPartition]] = {}
        self._partitions: dict[DeviceId, dict[str, Partition]] = {}
        self._by_device: dict[DeviceId, dict[str, Partition]] = {}
        """By UID: one, unless people make further ones."""
        self._by_node: dict[str, dict[str, Partition]] = {}
        self._nodes: set[str] = set()
        self._of_layouts: dict[str, dict[str, Partition]] = {}
        self.names = PublishedNames()
        self.idle: dict[DeviceId, int] = {}
        """Devices whose partition is cut and held by nobody, each with 1: choosing one cuts nothing."""
        self.failed: dict[str, Partition] = {}
        """Partitions that could not be cut for the holder that they have, by UID."""
        self.nodeless: set[str] = set()
        """Names of nodes that have Partitions and no Node object."""
        self.shareable: set[DeviceId] = set()
        """Devices that serve several claims at once."""
        self.wide: set[DeviceId] = set()
        """Devices of slices that are of no single node: several may reach them."""
        self.phases: Counter[tuple[str, Phase]] = Counter()
        """How many Partition objects of a driver are in a phase."""
        self.static: set[DeviceId] = set()
        """Devices that layouts have made, as slices have them."""
        self.objectless: set[DeviceId] = set()
        """Those of them that no Partition object stands for."""
        self.unsettled: dict[str, Partition] = {}
        """Partitions of layouts that are being deleted, or that no slice has, by UID."""
        self.changes: ChangeLog[DeviceId] = ChangeLog()
        """Cards whose slices, Partitions or allocations changed."""

    def put_slice(self, uid: str, old: Slice | None, new: Slice | None) -> None:
        """Replace a slice. `old` None: it is new; `new` None: it is deleted."""
        self.names.put(old, new)
        cards: dict[DeviceId, None] = {}
        for device in old.devices if old is not None else ():
            found = self._devices.get(device.id)
            hidden = self._hidden.pop(device.id, {})
            # In a new pool generation another slice may publish the device already, or the former one still.
            if found is not None and found.slice == uid:
                cards[self.card(device.id)] = None
                self._show(found, None)
                if hidden:
                    _, former = hidden.popitem()
                    self._show(None, former)
            else:
                hidden.pop(uid, None)
            if hidden:
                self._hidden[device.id] = hidden
        for device in new.devices if new is not None else ():
            node = new.availability.node if new is not None else None
            before = self._devices.get(device.id)
            if before is not None and before.slice != uid:
                self._hidden.setdefault(device.id, {})[before.slice] = before
            self._show(before, _Published(uid, device, node, published_partition(device)))
            cards[self.card(device.id)] = None
        for card in cards:
            self.changes.add(card, most=most_changes(len(self._devices)))

    def _show(self, old: _Published | None, new: _Published | None) -> None:
        """Replace a device as it is published. `old` None: it is in no slice; `new` None: it is in none any more."""
        found = old or new
        if old is not None:
            del self._devices[old.device.id]
            self.shareable.discard(old.device.id)
            self.static.discard(old.device.id)
            self.wide.discard(old.device.id)
            if old.part is not None:
                _remove(self._published, old.part.card, old.device.name)
        if new is not None:
            self._devices[new.device.id] = new
            if new.device.shareable:
                self.shareable.add(new.device.id)
            if new.node is None:
                self.wide.add(new.device.id)
            if new.device.name.endswith(STATIC_SUFFIX):
                self.static.add(new.device.id)
            if new.part is not None:
                self._published.setdefault(new.part.card, {})[new.device.name] = new.part
        if found is not None and (
            found.device.name.endswith(STATIC_SUFFIX) or found.device.id in self._by_device
        ):
            self._settle(found.device.id)

    def put_partition(self, uid: str, old: Partition | None, new: Partition | None) -> None:
        """Replace a Partition object. `old` None: it is new; `new` None: it is deleted."""
        if old is not None:
            device = device_of(old)
            self.phases[old.spec.driver, _phase(old)] -= 1
            self.touch(device)
            _remove(self._by_device, device, uid)
            self.failed.pop(uid, None)
            _remove(self._partitions, card_of(old), uid)
            _remove(self._by_node, old.spec.node_name, uid)
            _remove(self._of_layouts, layout_of(old), uid)
            self._check_node(old.spec.node_name)
            self.unsettled.pop(uid, None)
            self._settle(device)
        if new is not None:
            device = device_of(new)
            self._by_device.setdefault(device, {})[uid] = new
            self.phases[new.spec.driver, _phase(new)] += 1
            if new.status.phase == Phase.FAILED and new.spec.holder is not None and _is_answered(new):
                self.failed[uid] = new
            self._partitions.setdefault(card_of(new), {})[uid] = new
            self._by_node.setdefault(new.spec.node_name, {})[uid] = new
            if layout_of(new):
                self._of_layouts.setdefault(layout_of(new), {})[uid] = new
            self._check_node(new.spec.node_name)
            self._settle(device)
            self.touch(device)

    def put_node(self, name: str, *, exists: bool) -> None:
        """Note that there is a Node object of this name, or that there is none any more."""
        (self._nodes.add if exists else self._nodes.discard)(name)
        self._check_node(name)

    def touch(self, device: DeviceId) -> None:
        """Note that something changed about a device: its card is looked at again."""
        self.changes.add(self.card(device), most=most_changes(len(self._devices)))

    def card(self, device: DeviceId) -> DeviceId:
        """Return the card whose counters a device draws from: the device itself where it is no partition."""
        found = self._devices.get(device)
        if found is not None and found.part is not None:
            return found.part.card
        partition = self.partition(device)
        return card_of(partition) if partition is not None else device

    def partition(self, device: DeviceId, claim: str = "") -> Partition | None:
        """Return the Partition object by which a claim (UID) has a device, or anybody."""
        return first_of(self._by_device.get(device, {}).values(), claim)

    def on_node(self, node: str) -> list[Partition]:
        """Return the Partition objects of a node."""
        return list(self._by_node.get(node, {}).values())

    @property
    def layouts(self) -> list[str]:
        """Return the UIDs of the layouts that have Partition objects."""
        return list(self._of_layouts)

    def of_layout(self, uid: str) -> list[Partition]:
        """Return the Partition objects of a layout (UID)."""
        return list(self._of_layouts.get(uid, {}).values())

    def _settle(self, device: DeviceId) -> None:
        """Look whether a device is idle, and whether one that a layout has made, or is to make, is published and has its Partition object."""
        own = self.partition(device)
        if own is not None and is_idle(own):
            self.idle[device] = 1
        else:
            self.idle.pop(device, None)
        is_objectless = device in self.static and device not in self._by_device
        (self.objectless.add if is_objectless else self.objectless.discard)(device)
        for uid, partition in self.partitions_on(card_of(own) if own else self.card(device)).items():
            if (
                partition.spec.origin == Origin.LAYOUT
                and layout_of(partition)
                and device_of(partition) == device
            ):
                if partition.metadata.deletion_timestamp is not None or device not in self._devices:
                    self.unsettled[uid] = partition
                else:
                    self.unsettled.pop(uid, None)

    def _check_node(self, name: str) -> None:
        is_nodeless = name in self._by_node and name not in self._nodes
        (self.nodeless.add if is_nodeless else self.nodeless.discard)(name)

    def device(self, device: DeviceId) -> Device | None:
        """Return a device as it is published; None: in no slice."""
        found = self._devices.get(device)
        return found.device if found is not None else None

    def published(self, device: DeviceId) -> tuple[Device, str] | None:
        """Return a device and its node; None when no slice has it, or its slice is not for one node."""
        found = self._devices.get(device)
        return (found.device, found.node) if found is not None and found.node is not None else None

    def published_partition(self, device: DeviceId) -> PublishedPartition | None:
        """Return the partition that a published device stands for; None when it needs no cut."""
        found = self._devices.get(device)
        return found.part if found is not None else None

    def published_partitions(self, card: DeviceId) -> Mapping[str, PublishedPartition]:
        """Return the partitions that slices offer on a card, by device name."""
        return self._published.get(card, {})

    @property
    def cards(self) -> Iterator[DeviceId]:
        """Yield all cards that offer partitions."""
        return iter(self._published)

    def partitions_on(self, card: DeviceId) -> Mapping[str, Partition]:
        """Return the Partition objects on a card, by UID."""
        return self._partitions.get(card, {})

    def leaving(self, result: DeviceResult) -> list[Partition]:
        """Return the Partition objects that have to leave a card before a claim has all of it; not those of layouts, nor any where it only looks."""
        found = () if result.admin_access else self.partitions_on(result.device).values()
        return [each for each in found if each.spec.origin != Origin.LAYOUT]

    @property
    def partitioned(self) -> Iterator[DeviceId]:
        """Yield all cards with Partition objects."""
        return iter(self._partitions)


def first_of(partitions: Iterable[Partition], claim: str) -> Partition | None:
    """Return by which of a device's Partition objects a claim (UID) has it: its own, else one that stays, else one that was cut, as its agent says."""

    def order(partition: Partition) -> tuple[bool, bool, bool, bool, str]:
        holder, metadata = partition.spec.holder, partition.metadata
        own = holder is not None and holder.uid == claim
        leaving = metadata.deletion_timestamp is not None
        return not own, leaving, not partition.status.uuid, holder is None, metadata.name

    return min(partitions, key=order, default=None)


def device_of(partition: Partition) -> DeviceId:
    """Return the device that a Partition object stands for."""
    return DeviceId(partition.spec.driver, partition.spec.pool, partition.spec.device)


def card_of(partition: Partition) -> DeviceId:
    """Return the whole device that a partition is cut from."""
    return DeviceId(partition.spec.driver, partition.spec.pool, partition.spec.parent)


def is_idle(partition: Partition) -> bool:
    """Say whether a partition is cut, held by nobody, and to stay."""
    return (
        partition.spec.holder is None
        and partition.status.phase == Phase.IDLE
        and partition.metadata.deletion_timestamp is None
    )


def _phase(partition: Partition) -> Phase:
    """Return the phase of a partition; one of which no agent has said anything is pending."""
    return partition.status.phase or Phase.PENDING


def _is_answered(partition: Partition) -> bool:
    """Say whether its agent has seen what is asked for now: before, the status is about a former holder."""
    seen = partition.status.observed_generation
    return seen is None or seen >= partition.metadata.generation


def layout_of(partition: Partition) -> str:
    """Return the UID of the layout that holds a partition; empty for other partitions."""
    holder = partition.spec.holder
    return holder.uid if holder is not None and holder.kind == HolderKind.LAYOUT else ""


def _remove(index: dict[_K, dict[str, _V]], key: _K, name: str) -> None:
    found = index.get(key, {})
    found.pop(name, None)
    if not found:
        index.pop(key, None)
