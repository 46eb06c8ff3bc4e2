"""The places of a layout's partitions on one card.

In: the card, the layout, what older layouts have there. Out: published partitions that fit together, or why there are none.
"""

from apportion.api.contract import STATIC_SUFFIX
from apportion.api.layout import LayoutPartition, PartitionLayout
from apportion.api.meant import meant
from apportion.api.partition import Holder, HolderKind, Partition
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.errors import BrokenInput
from apportion.partitions.card import PartitionableCard


def holder_of(layout: PartitionLayout) -> Holder:
    """Return what a layout is as the holder of its partitions."""
    return Holder(kind=HolderKind.LAYOUT, name=layout.metadata.name, uid=layout.metadata.uid)


def is_of(partition: Partition, layout: PartitionLayout) -> bool:
    """Say whether a layout of this name, this one or a former one, has it: a deleted layout that is made anew gets another UID."""
    holder = partition.spec.holder
    kind = HolderKind.LAYOUT
    return holder is not None and (holder.kind, holder.name) == (kind, layout.metadata.name)


def choose(card: PartitionableCard, layout: PartitionLayout, taken: list[str]) -> list[PublishedPartition]:
    """Choose the places on one card: those that the layout has already, then the first that fit together.

    `taken`: devices that older layouts have there. Raises BrokenInput when the card cannot hold them even when it is idle.
    """
    mine = {p.spec.device.removesuffix(STATIC_SUFFIX) for p in card.partitions if is_of(p, layout)}
    names, chosen = list(taken), list[PublishedPartition]()
    options = sorted(
        card.published.values(),
        key=lambda part: (part.device.name not in mine, part.start or 0, part.device.name),
    )
    for index, entry in enumerate(layout.spec.partitions):
        for start, where in _places(entry):
            fitting = (
                part
                for part in options
                if part.profile == entry.profile
                and start in (None, part.start)
                and part.device.name not in names
                and card.fits([*names, part.device.name])
            )
            part = next(fitting, None)
            if part is None:
                raise _unfit(card, entry, start, names, f"spec.partitions[{index}]", where)
            names.append(part.device.name)
            chosen.append(part)
    return chosen


def _unfit(
    card: PartitionableCard, entry: LayoutPartition, start: int | None, taken: list[str], at: str, asked: str
) -> BrokenInput:
    """Return why a partition has no place on a card beside those that are taken; `asked`: the field of the entry `at` that asks for it."""
    where, profile = f"{card.node}/{card.whole.name}", entry.profile
    profiles = {part.profile for part in card.published.values()}
    if profile not in profiles:
        return BrokenInput(f"{where} offers no {profile}{meant(profile, profiles)}", field=f"{at}.profile")
    starts = sorted({part.start or 0 for part in card.published.values() if part.profile == profile})
    if start is not None and start not in starts:
        begins = " or ".join(map(str, starts))
        return BrokenInput(
            f"{profile} begins at {begins} on {where}, not at {start}", field=f"{at}.{asked}.start"
        )
    beside = f" beside {', '.join(taken)}" if taken else ""
    return BrokenInput(f"{profile} does not fit on {where}{beside}", field=f"{at}.{asked}")


def _places(entry: LayoutPartition) -> list[tuple[int | None, str]]:
    """Return for each wanted partition its first memory slice, None for any, and the field that asks for it."""
    if entry.placements is None:
        return [(None, "count")] * (entry.count or 0)
    return [(place.start, f"placements[{index}]") for index, place in enumerate(entry.placements)]
