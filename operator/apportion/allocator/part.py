"""Parts: pools as they lie on one node, slice by slice.

In: a pool and a node. Out: the pool's slices with the devices that the node may use.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from apportion.allocator.candidates import Piece
from apportion.allocator.features import Features
from apportion.allocator.pools import Place, PoolView, reaches
from apportion.dra.slice import Slice


class Cut(NamedTuple):
    """A slice on a node."""

    piece: Piece
    visible: int
    """Bit per device that the node may use."""


class Part(NamedTuple):
    """A pool on a node."""

    driver: str
    binds: bool
    """Whether some device has binding conditions; such pools are tried last."""
    cuts: tuple[Cut, ...]
    counters: Mapping[tuple[str, str], int]


def part(pool: PoolView, pieces: Callable[[Slice], Piece], place: Place, features: Features) -> Part:
    """Return what a pool has for a node."""
    cuts = []
    for cut in pool.slices:
        piece = pieces(cut)
        cuts.append(Cut(piece, visible(cut, piece, place, features)))
    return Part(pool.id.driver, pool.binds, tuple(cuts), pool.counters or {})


def visible(cut: Slice, piece: Piece, place: Place, features: Features) -> int:
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
