"""node_devices(): what the devices of one node are to those who look at the fleet: placeable, in slices, tainted.

In: the allocator's view of a node. Out: a frozen row of numbers; nodes of one class with the same devices held have equal rows. Devices
that share counters (KEP-4815) are counted by the best choice for each group, as `apportion free` does.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.node.countergroup import CounterGroup
from apportion.allocator.node.counters import GroupState
from apportion.allocator.node.nodeview import NodeView
from apportion.api.contract import GUARD, VIRTUAL_FUNCTION
from apportion.cli.answers.largest import DeviceKind, kind_of_device, most_together
from apportion.dra.quantity import NANO
from apportion.dra.taint import Toleration
from apportion.quota.charge import MODELS, PROFILES, first_attribute

STEPS = 2_000
"""Choices that are tried for one group of counters; beyond, the number is at least so large."""
MOST_UNITS = 64
"""A counter with more units is no scale of slices."""
MOST_COUNTS = 1 << 16
"""Groups of counters, each in one state, whose numbers are kept."""
_GUARD = (Toleration(key=GUARD, operator="Exists"),)
_NAMES = (*PROFILES, *MODELS, "layout", "type", VIRTUAL_FUNCTION)
"""Attributes that make a kind, in the driver's own domain."""
_OURS = "apportion.dev/"
OTHER_TAINT = "other"

Counts = Memo[tuple[GroupState, int], int]
"""How many devices of a mask fit together in a state."""


class Model(NamedTuple):
    """Cards that stand for each other."""

    driver: str
    model: str


class TaintedCard(NamedTuple):
    """A taint on a whole device."""

    driver: str
    model: str
    taint: str
    effect: str


@dataclass(frozen=True, slots=True)
class KindCount:
    """How many devices of a kind there are."""

    capacity: int
    placeable: int
    tainted: int
    """Would be placeable, too, without taints."""


@dataclass(slots=True)
class Slices:
    """Slices of the cards of a model."""

    total: int = 0
    free: int = 0
    scattered: int = 0

    def add(self, total: int, free: int, scattered: int) -> None:
        """Add those of further cards."""
        self.total, self.free, self.scattered = (
            self.total + total,
            self.free + free,
            self.scattered + scattered,
        )


@dataclass(frozen=True, slots=True, eq=False)
class NodeDevices:
    """The numbers of a node; compared by identity."""

    kinds: Mapping[DeviceKind, KindCount]
    slices: Mapping[Model, Slices]
    tainted: Mapping[TaintedCard, int]


@dataclass(frozen=True, slots=True)
class _Card:
    """A group of devices that share counters."""

    model: Model
    scale: tuple[int, ...]
    """Positions of the counters whose units are its slices; none: the group is one slice."""
    sizes: tuple[int, ...]
    """Slices of each device of the group."""


@dataclass(frozen=True, slots=True)
class _Content:
    """What all nodes of a class have in common here."""

    kinds: Mapping[DeviceKind, int] = field(default_factory=dict)
    """Devices by kind."""
    whole: Mapping[Model, int] = field(default_factory=dict)
    """Devices that are no part of another one."""
    cards: tuple[_Card, ...] = ()
    """In the order of the node's groups."""


def node_devices(view: NodeView, own: int, counts: Counts) -> NodeDevices:
    """Return the numbers of a node; `own`: the devices that count for it, `counts` keeps what was counted before."""
    content = _content(view)
    idle = own & ~view.exclusive & ~view.charged
    offered = idle & view.tolerating(_GUARD)
    kinds = {}
    for kind, mask in content.kinds.items():
        if mask & own:
            placeable = _together(view, mask & offered, counts)
            untainted = _together(view, mask & idle, counts) if mask & idle & ~offered else placeable
            capacity = _together(view, mask & own, counts, fresh=True)
            kinds[kind] = KindCount(capacity, placeable, untainted - placeable)
    slices: dict[Model, Slices] = {}
    for group, card in zip(view.groups, content.cards, strict=True):
        if group.mask & own:
            slices.setdefault(card.model, Slices()).add(*_slices(group, card))
    for model, mask in content.whole.items():
        alone = mask & own & view.plain
        if alone:
            slices.setdefault(model, Slices()).add(alone.bit_count(), (alone & idle).bit_count(), 0)
    return NodeDevices(kinds, slices, dict(_tainted(view, content, own)))


def _together(view: NodeView, mask: int, counts: Counts, *, fresh: bool = False) -> int:
    """Return how many devices of the mask could be given out at once; `fresh`: if nothing were held."""
    found = (mask & view.plain).bit_count()
    for group in view.groups:
        local = group.gather(mask)
        if local:
            key = group.fresh if fresh else group.state, local
            known = counts.get(key)
            if known is None:
                known = counts[key] = most_together(*key, steps=STEPS)[0]
            found += known
    return found


def _slices(group: CounterGroup, card: _Card) -> tuple[int, int, int]:
    """Return the slices of a card: all, those free, and those free that the largest device that fits leaves."""
    most = max((card.sizes[local] for local in bits(group.occupancy.open)), default=0)
    if not card.scale:
        return 1, most, 0
    free = sum(group.state.left[position] for position in card.scale) // NANO
    return sum(group.totals[position] for position in card.scale) // NANO, free, max(0, free - most)


def _tainted(view: NodeView, content: _Content, own: int) -> Iterator[tuple[TaintedCard, int]]:
    if not view.template.tainted:
        return
    for model, mask in content.whole.items():
        found: dict[TaintedCard, int] = {}
        for index in bits(mask & own & view.template.tainted):
            for taint in view.template.taints[index]:
                if taint.key != GUARD:
                    key = taint.key if taint.key.startswith(_OURS) else OTHER_TAINT
                    card = TaintedCard(*model, key, taint.effect)
                    found[card] = found.get(card, 0) + 1
        yield from found.items()


def _content(view: NodeView) -> _Content:
    """Return what the class of a node has in common, read once for all classes with equal values of `_NAMES`."""
    if view.node_class is None:
        return _read(view)
    drivers = {device.driver for device in view.devices}
    names = tuple(f"{driver}/{name}" for driver in sorted(drivers) for name in _NAMES)
    return view.node_class.table("device kinds", names, partial(_read, view))


def _read(view: NodeView) -> _Content:
    kinds: dict[DeviceKind, int] = {}
    whole: dict[Model, int] = {}
    for index in bits(view.base):
        kind = kind_of_device(view.devices[index])
        kinds[kind] = kinds.get(kind, 0) | 1 << index
        if not first_attribute(view.devices[index], PROFILES):
            model = Model(kind.driver, kind.model)
            whole[model] = whole.get(model, 0) | 1 << index
    return _Content(kinds, whole, tuple(_card(view, group) for group in view.groups))


def _card(view: NodeView, group: CounterGroup) -> _Card:
    """Return how the slices of a group are counted: by memory slices, else by the counter with the most units."""
    first = kind_of_device(view.devices[group.members[0]])
    needs = [dict(need) for need in group.group_type.needs]
    scale = tuple(
        number for number, (_, name) in enumerate(group.counters) if name.startswith("memory-slice-")
    )
    if not scale:
        most = {number: max(need.get(number, 0) for need in needs) for number in range(len(group.counters))}
        units = [
            (amount // NANO, group.counters[number][1], number)
            for number, amount in most.items()
            if amount % NANO == 0 and 1 < amount // NANO <= MOST_UNITS
        ]
        scale = (max(units)[2],) if units else ()
    sizes = tuple(sum(need.get(position, 0) for position in scale) // NANO if scale else 1 for need in needs)
    return _Card(Model(first.driver, first.model), scale, sizes)
