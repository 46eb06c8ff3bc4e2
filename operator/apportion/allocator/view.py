"""One node as the allocator sees it: its devices in order, and what is left of them.

In: the pools of the node and the ledger. Out: bit masks over the node's devices, counter groups and their states, the
devices that a request may take. A view is built when its slices change and follows what is held.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.anatomy import Anatomies, Cut, Part
from apportion.allocator.answers import Answers
from apportion.allocator.candidates import Piece
from apportion.allocator.capacity import charge, fits
from apportion.allocator.counters import bits
from apportion.allocator.fault import Flaw
from apportion.allocator.features import Features
from apportion.allocator.group import Group
from apportion.allocator.kind import Kind
from apportion.allocator.layout import NEIGHBOURHOODS, Layout
from apportion.allocator.ledger import Change, Consumption, Holding, Ledger
from apportion.allocator.pools import Place, PoolView, reaches
from apportion.allocator.selection import Selected, Selection
from apportion.allocator.shape import Want
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Attribute, Device, DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import NodeSelector
from apportion.dra.semver import Semver
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taint import Toleration, untolerated
from apportion.errors import BrokenInput

if TYPE_CHECKING:
    from apportion.allocator.plan import Plan
    from apportion.allocator.shape import Meaning

Answering: TypeAlias = Callable[[str], Answers]

Atom: TypeAlias = tuple[str, object]
"""A typed attribute value; versions are compared by their text, as upstream does."""

MOST_PLANS = 64
"""Claims whose plans or tolerations a node keeps for itself."""
MOST_CHARGES = 4096
"""Amounts that a node keeps."""

_NO_SHARES: Mapping[int, Mapping[str, int]] = {}


class NodeView:
    """A node's devices and what is left of them."""

    __slots__ = (
        "_charges",
        "_ids",
        "_local",
        "_own",
        "_pool_ids",
        "_rolls",
        "_tolerated",
        "_values",
        "anatomy",
        "base",
        "charged",
        "devices",
        "exclusive",
        "features",
        "fit",
        "groups",
        "homely",
        "incomplete",
        "invalid",
        "kind",
        "limited",
        "open",
        "pieces",
        "place",
        "plain",
        "plans",
        "results",
        "shareable",
        "used",
    )

    def __init__(
        self,
        place: Place,
        pools: Sequence[PoolView],
        pieces: Callable[[Slice], Piece],
        anatomies: Anatomies,
        features: Features,
    ) -> None:
        self.place = place
        self.features = features
        usable = [pool for pool in pools if pool.usable]
        usable.sort(key=lambda pool: (pool.binds, pool.id.driver, pool.id.name))
        self.incomplete = next((pool.id for pool in pools if pool.incomplete), None)
        self.invalid = next((pool for pool in pools if pool.invalid), None)
        parts = [self._part(pool, pieces) for pool in usable]
        self.pieces = tuple([cut.piece for part in parts for cut in part.cuts])
        self.devices: list[Device] = []
        for piece in self.pieces:
            self.devices += piece.slice.devices
        self.anatomy = anatomies.of(parts)
        anatomy = self.anatomy
        self._pool_ids = tuple([pool.id for pool in usable])
        self._rolls = {
            pool.id: anatomies.roll(self.devices, anatomy.base & mask)
            for pool, mask in zip(usable, anatomy.pool_masks, strict=True)
        }
        self.homely = all(
            place.node is not None and not place.per_device
            for place in [piece.slice.availability for piece in self.pieces]
        )
        """Whether every slice is of this node only."""
        self.base = anatomy.base
        """Devices that may be used at all on this node."""
        self.shareable = anatomy.shareable
        self.limited = anatomy.limited
        """Devices whose capacity decides even when a request names none: shareable ones, and those with a policy."""
        self.plain = anatomy.plain
        """Devices without counters."""
        self.groups = [Group(cast) for cast in anatomy.casts]
        self.exclusive = 0
        """Devices held as a whole."""
        self.charged = 0
        """Shareable devices that have paid for their counters already."""
        self.used: Mapping[int, Mapping[str, int]] = _NO_SHARES
        """Capacity in use by shares, by device."""
        self.fit = 0
        """Devices for which the counters suffice."""
        self.open = 0
        """Of those: not held."""
        self.kind: Kind | None = None
        """Set once the kinds of nodes are looked at."""
        self.results: dict[tuple[int, str], DeviceResult] = {}
        """What allocations say of devices that are taken whole, by the request's name; kept for the next one."""
        self._ids: dict[int, DeviceId] = {}
        self._own: Selection | None = None
        self.plans: dict[Meaning, Plan | None] = {}
        """What claims for one device may take, where the kind cannot tell."""
        self._local: NodeSelector | None = None
        self._tolerated: dict[tuple[Toleration, ...], int] | None = None
        self._charges: dict[
            tuple[int, tuple[tuple[str, Quantity], ...]], dict[str, Quantity] | Flaw | None
        ] = {}
        self._values: dict[str, dict[Atom, int]] = {}

    @property
    def peculiar(self) -> bool:
        """Whether messages or shares make the node unlike any other."""
        return (
            self.incomplete is not None
            or self.invalid is not None
            or bool(self.limited)
            or any(piece.pattern.unsupported for piece in self.pieces)
        )

    @property
    def group_of(self) -> Mapping[int, tuple[int, int]]:
        """Return (group, position in the group) by device."""
        return self.anatomy.group_of

    @property
    def holdings(self) -> tuple[object, ...]:
        """Return all that a search reads of what is held: equal on nodes of one kind means equal answers."""
        states = tuple([group.state for group in self.groups])
        if not self.charged:
            return self.exclusive, states
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.used.items()))
        return self.exclusive, states, self.charged, shares

    @property
    def layout(self) -> Layout:
        """Return which devices sit together."""
        kept = self.kind
        if kept is None:
            return Layout(self)
        if kept.layout is None:
            kept.layout = kept.table("layout", NEIGHBOURHOODS, lambda: Layout(self))
        return kept.layout

    @property
    def local(self) -> NodeSelector:
        """Return the selector that pins to this node."""
        if self._local is None:
            self._local = NodeSelector.of_name(self.place.name)
        return self._local

    def remember(self, meaning: "Meaning", plan: "Plan | None") -> "Plan | None":
        """Keep what a claim for one device may take here."""
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
        self.plans[meaning] = plan
        return plan

    def find(self, device: DeviceId) -> int | None:
        """Return the position of a device that may be used here."""
        roll = self._rolls.get(PoolId(device.driver, device.pool))
        return roll.get(device.name) if roll is not None else None

    def consumption(self, pool: PoolId, name: str) -> Consumption | None:
        """Return what a device takes from counters; None if it may not be used here."""
        roll = self._rolls.get(pool)
        index = roll.get(name) if roll is not None else None
        return self.anatomy.taken[index] if index is not None else None

    def piece_of(self, index: int) -> Slice:
        """Return the slice that publishes a device."""
        return self.pieces[self.anatomy.cut_of[index]].slice

    def id_of(self, index: int) -> DeviceId:
        """Return the name that allocations use for a device."""
        found = self._ids.get(index)
        if found is None:
            device = self.devices[index]
            found = self._ids[index] = DeviceId(device.driver, device.pool, device.name)
        return found

    def _part(self, pool: PoolView, pieces: Callable[[Slice], Piece]) -> Part:
        cuts = []
        for cut in pool.slices:
            piece = pieces(cut)
            cuts.append(Cut(piece, self._visible(cut, piece)))
        return Part(pool.id.driver, pool.binds, tuple(cuts), pool.counters or {})

    def _visible(self, cut: Slice, piece: Piece) -> int:
        """Return the devices that the node may use."""
        features = self.features
        skips = features.optional_node_operations and cut.extra.get("skipNodeOperations")
        if skips and "DRAOptionalNodeOperations" not in self.place.declared:
            return 0
        mask = (1 << len(cut.devices)) - 1
        if not features.device_binding_and_status:
            mask &= ~piece.pattern.binding
        if not features.partitionable_devices:
            mask &= ~piece.pattern.consuming
        if cut.availability.per_device:
            for index, device in enumerate(cut.devices):
                if not reaches(cut, device, self.place):
                    mask &= ~(1 << index)
        return mask

    def refresh(self, ledger: Ledger) -> None:
        """Take over what is held now."""
        self.exclusive = self.charged = 0
        used: dict[int, Mapping[str, int]] = {}
        for pool, roll in self._rolls.items():
            for name, holding in ledger.held(pool).items():
                index = roll.get(name)
                if index is not None:
                    self._occupy(index, holding, used)
        self.used = used or _NO_SHARES
        left: dict[int, list[int]] = {}
        counter_of = self.anatomy.counter_of
        for number, pool in enumerate(self._pool_ids):
            for counter, amount in ledger.counters(pool).items():
                place = counter_of.get((number, counter))
                if amount and place is not None:
                    left.setdefault(place[0], list(self.groups[place[0]].totals))[place[1]] -= amount
        fit = self.plain
        for number, group in enumerate(self.groups):
            state = group.make.state(tuple(left[number])) if number in left else group.fresh
            group.enter(group.make.spot(state, group.gather(self.exclusive)))
            fit |= group.spread(state.fits)
        self.fit = fit | self.charged
        self.open = self.fit & ~self.exclusive

    def follow(self, changes: Iterable[Change], ledger: Ledger) -> bool:
        """Take over what is held now of a few devices; False where only `refresh` can tell."""
        if self.shareable:
            return False
        exclusive, fit = self.exclusive, self.fit
        groups, group_of = self.groups, self.anatomy.group_of
        for pool, name, taken, sign in changes:
            roll = self._rolls.get(pool)
            index = roll.get(name) if roll is not None else None
            if index is None:
                # What is published no longer may still draw from the counters.
                if sign and taken:
                    return False
                continue
            held = name in ledger.held(pool)
            if held:
                exclusive |= 1 << index
            else:
                exclusive &= ~(1 << index)
            place = group_of.get(index)
            if not sign or not taken:
                if place is not None:
                    group = groups[place[0]]
                    group.enter(group.spot.mark(place[1], busy=held))
                continue
            if place is None or taken is not self.anatomy.taken[index]:
                # Published differently since it was taken.
                return False
            group = groups[place[0]]
            group.enter(group.spot.take(place[1]) if sign > 0 else group.spot.give(place[1]))
            fit = fit & ~group.mask | group.spread(group.state.fits)
        self.exclusive, self.fit = exclusive, fit
        self.open = fit & ~exclusive
        return True

    def _occupy(self, index: int, holding: Holding, used: dict[int, Mapping[str, int]]) -> None:
        if holding.exclusive or not self.shareable >> index & 1:
            # A device that is no longer shareable stays with its sharers.
            self.exclusive |= 1 << index
        else:
            self.charged |= 1 << index
            used[index] = holding.capacity

    def selected(self, want: Want, answers: Answering) -> Selected:
        """Return the devices that pass the class's and the request's selectors, and those on which one fails."""
        key = want.class_selectors, want.selectors
        kind = self.kind
        found = kind.selected.get(key) if kind is not None else None
        if found is not None:
            return found
        if self._own is None:
            self._own = Selection()
        return self._own.of(key, self, answers)

    def prefixes(self, want: Want, answers: Answering) -> list[int]:
        """Return the devices left after each selector, the class's first: for explanations."""
        texts = (*want.class_selectors, *want.selectors)
        masks = [0] * len(texts)
        for piece, (_, offset, visible) in zip(self.pieces, self.anatomy.cuts, strict=True):
            left = visible
            for number, text in enumerate(texts):
                left, _ = piece.matches(text, left, answers)
                masks[number] |= left << offset
        return masks

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the devices whose taints these tolerations cover."""
        if not self.anatomy.tainted:
            return self.base
        if self._tolerated is None or len(self._tolerated) > MOST_PLANS:
            self._tolerated = {}
        found = self._tolerated.get(tolerations)
        if found is None:
            found = self.base & ~self.anatomy.tainted
            for index, taints in self.anatomy.taints.items():
                if untolerated(taints, tolerations) is None:
                    found |= 1 << index
            self._tolerated[tolerations] = found
        return found

    def charge(self, index: int, want: Want) -> dict[str, Quantity] | Flaw | None:
        """Return what the request takes of the device's capacities; None if it cannot serve, or why it is absurd."""
        key = index, want.capacity
        if key not in self._charges:
            if len(self._charges) >= MOST_CHARGES:
                self._charges.clear()
            try:
                self._charges[key] = charge(want.amounts, self.devices[index], self.features)
            except BrokenInput as error:
                reason = f"checking capacity for device {self.devices[index].id}: {error}"
                self._charges[key] = Flaw("request", reason, "capacity")
        return self._charges[key]

    def roomy(self, index: int, taken: Mapping[str, Quantity], *, beside: bool = True) -> bool:
        """Say whether the amounts fit, beside the shares that are held or in the whole device."""
        return fits(taken, self.devices[index], self.used.get(index, {}) if beside else {})

    def values(self, attribute: str) -> dict[Atom, int]:
        """Return the devices by what they hold in an attribute; a list puts its device under every entry."""
        kind = self.kind
        shared = kind is not None and kind.shares(attribute)
        kept = kind.values if kind is not None and shared else self._values
        found = kept.get(attribute)
        if found is None:
            make = self._atoms(attribute)
            found = kind.table("values", (attribute,), make) if kind is not None and shared else make()
            if len(kept) >= MOST_PLANS:
                kept.clear()
            kept[attribute] = found
        return found

    def _atoms(self, attribute: str) -> Callable[[], dict[Atom, int]]:
        def make() -> dict[Atom, int]:
            found: dict[Atom, int] = {}
            for index in bits(self.base):
                for atom in atoms(self.devices[index].attribute(attribute), self.features):
                    found[atom] = found.get(atom, 0) | 1 << index
            return found

        return make

    def holding(self, mask: int) -> int:
        """Return every device of the pools that the mask touches."""
        return sum(devices for devices in self.anatomy.pool_masks if devices & mask) & self.base


def atoms(value: Attribute | None, features: Features) -> tuple[Atom, ...]:
    """Return the typed values of an attribute: none if it is absent, or a list while the feature is off."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_atom(entry) for entry in value)) if features.list_type_attributes else ()
    return (_atom(value),)


def _atom(value: bool | int | str | Semver) -> Atom:  # noqa: FBT001 - an attribute may be a boolean
    return type(value).__name__, value.text if isinstance(value, Semver) else value
