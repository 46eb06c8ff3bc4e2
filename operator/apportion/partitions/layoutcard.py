"""LayoutCard: what one layout wants of one card, whatever bounds how many nodes change at a time.

In: the layout, the card, what older layouts have there, the snapshot. Out: a frozen value, which holds as long as nothing of them changes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.layout import LAYOUT_HOLD, PartitionLayout
from apportion.api.partition import Partition, Phase
from apportion.cel import Programs
from apportion.cluster.indexes.deviceindex import device_of
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.errors import BrokenInput, SelectorError
from apportion.partitions.actions import Action, Delete, SetHolder
from apportion.partitions.card import PartitionableCard
from apportion.partitions.layoutplaces import choose, holder_of, is_of
from apportion.partitions.leaving import dynamic, in_use


@dataclass(frozen=True, slots=True)
class LayoutCard:
    """A card that a layout selects."""

    node: str
    name: str
    """The whole device's."""
    devices: tuple[str, ...] = ()
    """The names of the placements that it is to have."""
    changing: bool = False
    """Whether a partition of the layout is on its way there."""
    impossible: BrokenInput | None = None
    """Why the card cannot hold them, even when it is idle."""
    actions: tuple[Action, ...] = ()
    """All but those that create."""
    unready: bool = False
    reserved: tuple[DeviceId, ...] = ()
    blocked: str = ""
    """Why it cannot have them now."""
    passing: tuple[DeviceId, ...] = ()
    """See `LayoutPlan.passing`."""
    missing: tuple[PublishedPartition, ...] = ()
    """To be created as soon as the node may change."""

    @property
    def settled(self) -> bool:
        """Whether there is nothing to do, to hold or to say."""
        return self == LayoutCard(self.node, self.name, self.devices)


def selects(layout: PartitionLayout, card: PartitionableCard, programs: Programs) -> bool:
    """Say whether a layout whose nodes include the card's selects the card. Raises BrokenInput for a selector that fails."""
    if not layout.spec.devices:
        offered = {part.profile for part in card.published.values()}
        return all(entry.profile in offered for entry in layout.spec.partitions)
    for index, selector in enumerate(layout.spec.devices):
        field_path = f"spec.devices[{index}].cel.expression"
        program = programs.get(selector.cel.expression)
        if isinstance(program, SelectorError):
            raise BrokenInput(program.reason, field=field_path)
        try:
            if not program.match(card.whole):
                return False
        except SelectorError as error:
            raise BrokenInput(f"device {card.whole.id}: {error.reason}", field=field_path) from None
    return True


def layout_card(
    layout: PartitionLayout, card: PartitionableCard, older: Sequence[str], snapshot: Snapshot
) -> LayoutCard:
    """Return what a layout wants of a card that it selects; `older`: the devices that older layouts have there, or want."""
    found = LayoutCard(card.node, card.whole.name, changing=_changing(card, layout))
    try:
        wanted = choose(card, layout, list(older))
    except BrokenInput as error:
        return replace(found, impossible=error)
    names = {part.device.name + STATIC_SUFFIX for part in wanted}
    holder = holder_of(layout)
    have = {p.spec.device: p for p in card.partitions if is_of(p, layout)}
    handed = [
        SetHolder(partition, holder)
        for name, partition in have.items()
        if name in names and partition.spec.holder != holder and not _leaves(partition)
    ]
    unusable = [p for name, p in have.items() if name in names and not _usable(p, snapshot)]
    failed = [f"{p.spec.device}: {_why(p)}" for p in unusable if p.status.phase == Phase.FAILED]
    missing = [part for part in wanted if part.device.name + STATIC_SUFFIX not in have]
    surplus = [p for name, p in have.items() if name not in names and p.spec.holder == holder]
    used, only_idle = _used(card, snapshot), layout.spec.rollout.only_idle
    unready, blocked = bool(unusable), failed[-1] if failed else ""
    passing = passes(map(device_of, surplus), snapshot)
    if used and (missing or not all(map(_leaves, surplus))):
        taken = {name.removesuffix(STATIC_SUFFIX) for name in used}
        # Older layouts that what is used keeps from their places keep nobody else from them.
        taken |= set(older) if card.fits({*taken, *older}) else set()
        if only_idle or (missing and not card.fits(taken.union(part.device.name for part in wanted))):
            unready, blocked = True, f"{card.whole.name} is in use ({used[0]})"
            passing = passes(map(card.device, used), snapshot)
            missing = []
    leaving = [] if used and only_idle else surplus
    # An object is named after its device: another layout's, or what a claim has there, goes first.
    taken_names = {p.spec.device for p in card.partitions} | {name + STATIC_SUFFIX for name in used}
    free = [part for part in missing if part.device.name + STATIC_SUFFIX not in taken_names]
    if len(free) < len(missing):
        passing += passes(map(card.device, used), snapshot)
    return replace(
        found,
        devices=tuple(part.device.name for part in wanted),
        actions=(*handed, *(each for p in leaving for each in dropped(p, snapshot))),
        unready=unready or bool(missing),
        reserved=(*map(dynamic, unusable), *(part.device.id for part in missing)),
        blocked=blocked,
        passing=tuple(passing),
        missing=tuple(free),
    )


def dropped(partition: Partition, snapshot: Snapshot) -> list[Delete]:
    """Return how to remove a partition that its layout no longer wants; empty while it leaves already or is in use."""
    if _leaves(partition) or in_use(partition, snapshot):
        return []
    return [Delete(partition, "its layout no longer wants it")]


def users(device: DeviceId, snapshot: Snapshot) -> list[str]:
    """Return the keys under which others than layouts hold a device."""
    return [key for key in snapshot.state.holders(device) if not key.startswith(LAYOUT_HOLD)]


def passes(devices: Iterable[DeviceId], snapshot: Snapshot) -> list[DeviceId]:
    """Return those of the devices that no allocation has, but a decision, a reservation, or a pod whose claim is gone: no epoch grows when it lets go."""
    return [
        device for device in devices if users(device, snapshot) and not snapshot.claim_index.holders(device)
    ]


def _usable(partition: Partition, snapshot: Snapshot) -> bool:
    """Say whether a partition is cut and published: only then slices say what is left of its card."""
    published = snapshot.devices.device(device_of(partition)) is not None
    return partition.status.phase == Phase.READY and published


def _used(card: PartitionableCard, snapshot: Snapshot) -> list[str]:
    """Return the names of the devices of a card that a claim or a container has, the card itself and partitions of layouts among them."""
    cut = {p.spec.device for p in card.partitions if in_use(p, snapshot)}
    return sorted(cut | {name for name in card.names if users(card.device(name), snapshot)})


def _leaves(partition: Partition) -> bool:
    return partition.metadata.deletion_timestamp is not None


def _changing(card: PartitionableCard, layout: PartitionLayout) -> bool:
    return any(
        is_of(p, layout) and p.status.phase not in (Phase.READY, Phase.FAILED) for p in card.partitions
    )


def _why(partition: Partition) -> str:
    return next(
        (c.message for c in partition.status.conditions if c.status == "False" and c.message), "failed"
    )
