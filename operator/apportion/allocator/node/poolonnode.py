"""Parts: pools as they lie on one node, slice by slice.

In: a pool and a node. Out: the pool's slices with the devices that the node may use.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from apportion.allocator.rules.features import Features
from apportion.allocator.rules.pools import NodeInfo, PoolView, reaches
from apportion.allocator.rules.slices import SliceView
from apportion.dra.slice import Slice


class SliceOnNode(NamedTuple):
    """A slice on a node."""

    piece: SliceView
    visible: int
    """Bit per device that the node may use."""


class PoolOnNode(NamedTuple):
    """A pool on a node."""

    driver: str
    binds: bool
    """Whether some device has binding conditions; such pools are tried last."""
    cuts: tuple[SliceOnNode, ...]
    counters: Mapping[tuple[str, str], int]


def pool_on_node(
    pool: PoolView, pieces: Callable[[Slice], SliceView], place: NodeInfo, features: Features
) -> PoolOnNode:
    """Return what a pool has for a node."""
    cuts = []
    for cut in pool.slices:
        piece = pieces(cut)
        cuts.append(SliceOnNode(piece, visible(cut, piece, place, features)))
    return PoolOnNode(pool.id.driver, pool.binds, tuple(cuts), pool.counters or {})


def visible(cut: Slice, piece: SliceView, place: NodeInfo, features: Features) -> int:
    """Return the devices that the node may use."""
    skips = features.optional_node_operations and cut.extra.get("skipNodeOperations")
    if skips and "DRAOptionalNodeOperations" not in place.declared:
        return 0
    mask = (1 << len(cut.devices)) - 1
    if not features.device_binding_and_status:
        mask &= ~piece.pattern.binding
    if not features.partitionable_devices:
        mask &= ~piece.pattern.consuming
    if cut.availability.per_device:
        for index, device in enumerate(cut.devices):
            if not reaches(cut, device, place):
                mask &= ~(1 << index)
    return mask
