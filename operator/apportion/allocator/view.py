"""One node as the allocator sees it: its devices in order, and what is left of them.

In: the pools of the node and the ledger. Out: bit masks over the node's devices, counter groups and their states, the
devices that a request may take. A view is built when its slices change and refreshed when a holding changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from apportion.allocator.answers import Answers
from apportion.allocator.candidates import Piece
from apportion.allocator.capacity import charge, fits
from apportion.allocator.counters import GroupState, GroupType, GroupTypes, bits
from apportion.allocator.fault import Flaw
from apportion.allocator.features import Features
from apportion.allocator.kind import Kind
from apportion.allocator.layout import Layout
from apportion.allocator.ledger import Change, Holding, Ledger
from apportion.allocator.pools import Place, PoolView, consumption, reaches
from apportion.allocator.shape import Want
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import Attribute, Device, DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.selection import Availability, NodeSelector
from apportion.dra.semver import Semver
from apportion.dra.slice import PoolId, Slice
from apportion.dra.taint import Taint, Toleration, untolerated
from apportion.errors import BrokenInput

Answering: TypeAlias = Callable[[str], Answers]

Atom: TypeAlias = tuple[str, object]
"""A typed attribute value; versions are compared by their text, as upstream does."""


class Group:
    """Devices of a node that draw from the same counters."""

    __slots__ = ("base", "counters", "fresh", "make", "mask", "members", "pool", "state", "totals")

    def __init__(
        self,
        pool: PoolId,
        members: tuple[int, ...],
        make: GroupType,
        counters: tuple[tuple[str, str], ...],
        totals: tuple[int, ...],
    ) -> None:
        self.pool = pool
        self.members = members
        self.make = make
        self.counters = counters
        self.totals = totals
        self.mask = sum(1 << index for index in members)
        self.base = members[0] if members[-1] - members[0] + 1 == len(members) else None
        self.fresh = make.state(totals)
        """With nothing in use."""
        self.state: GroupState = self.fresh

    def spread(self, local: int) -> int:
        """Turn bits of the group into bits of the node."""
        if self.base is not None:
            return local << self.base
        return sum(1 << self.members[index] for index in bits(local))

    def gather(self, mask: int) -> int:
        """Turn bits of the node into bits of the group."""
        if self.base is not None:
            return (mask & self.mask) >> self.base
        return sum(1 << index for index, member in enumerate(self.members) if mask >> member & 1)


class NodeView:
    """A node's devices and what is left of them."""

    def __init__(
        self,
        place: Place,
        pools: Sequence[PoolView],
        pieces: Callable[[Slice], Piece],
        types: GroupTypes,
        features: Features,
    ) -> None:
        self.place = place
        self.features = features
        usable = [pool for pool in pools if pool.usable]
        self.pools = tuple(sorted(usable, key=lambda pool: (pool.binds, pool.id.driver, pool.id.name)))
        self.incomplete = next((pool.id for pool in pools if pool.incomplete), None)
        self.invalid = next((pool for pool in pools if pool.invalid), None)
        self.devices: list[Device] = []
        self.pool_of: list[PoolId] = []
        self.availability_of: list[Availability] = []
        self.extra_of: list[Mapping[str, object]] = []
        self._segments: list[tuple[Piece, int, int]] = []
        self._pool_masks: dict[PoolId, int] = {}
        self.index: dict[DeviceId, int] = {}
        self._named: dict[PoolId, dict[str, int]] = {}
        self._ids: dict[int, DeviceId] = {}
        self.results: dict[tuple[int, str], DeviceResult] = {}
        """What allocations say of devices that are taken whole, by the request's name; kept for the next one."""
        self.taints: dict[int, tuple[Taint, ...]] = {}
        self.base = 0
        """Devices that may be used at all on this node."""
        self.shareable = 0
        self.limited = 0
        """Devices whose capacity decides even when a request names none: shareable ones, and those with a policy."""
        self.groups: list[Group] = []
        self.group_of: dict[int, tuple[int, int]] = {}
        """Device -> (group, position in the group)."""
        self._counter_of: dict[tuple[PoolId, tuple[str, str]], tuple[int, int]] = {}
        self._set_of: dict[tuple[PoolId, str], int] = {}
        """Counter set -> group."""
        self._selected: dict[tuple[tuple[str, ...], tuple[str, ...]], tuple[int, dict[int, Flaw]]] = {}
        self._tolerated: dict[tuple[Toleration, ...], int] = {}
        self._charges: dict[
            tuple[int, tuple[tuple[str, Quantity], ...]], dict[str, Quantity] | Flaw | None
        ] = {}
        self._values: dict[str, dict[Atom, int]] = {}
        self._tainted = 0
        for pool in self.pools:
            self._add(pool, pieces, types)
        self.plain = self.base & ~sum(group.mask for group in self.groups)
        self.exclusive = 0
        """Devices held as a whole."""
        self.charged = 0
        """Shareable devices that have paid for their counters already."""
        self.used: dict[int, dict[str, int]] = {}
        """Capacity in use by shares, by device."""
        self.fit = 0
        """Devices for which the counters suffice."""
        self.kind: Kind | None = None
        """Set once the kinds of nodes are looked at."""
        self.local = NodeSelector.of_name(place.name)

    @property
    def peculiar(self) -> bool:
        """Whether messages or shares make the node unlike any other."""
        return (
            self.incomplete is not None
            or self.invalid is not None
            or bool(self.limited)
            or any(device.unsupported for device in self.devices)
        )

    @property
    def build(self) -> tuple[object, ...]:
        """Return all that a search reads besides attributes, capacities and what is held; without names."""
        tainted: dict[tuple[Taint, ...], int] = {}
        for index, taints in self.taints.items():
            tainted[taints] = tainted.get(taints, 0) | 1 << index
        return (
            tuple((pool.id.driver, pool.binds) for pool in self.pools),
            tuple(mask.bit_length() for mask in self._pool_masks.values()),
            self.base,
            tuple((group.make, group.mask, group.totals) for group in self.groups),
            tuple(tainted.items()),
        )

    @property
    def holdings(self) -> tuple[object, ...]:
        """Return all that a search reads of what is held: equal on nodes of one kind means equal answers."""
        shares = tuple((index, tuple(sorted(used.items()))) for index, used in sorted(self.used.items()))
        return self.exclusive, tuple([group.state for group in self.groups]), self.charged, shares

    @property
    def layout(self) -> Layout:
        """Return which devices sit together."""
        kept = self.kind
        if kept is None:
            return Layout(self)
        if kept.layout is None:
            kept.layout = Layout(self)
        return kept.layout

    def _add(self, pool: PoolView, pieces: Callable[[Slice], Piece], types: GroupTypes) -> None:
        start = len(self.devices)
        for cut in pool.slices:
            piece = pieces(cut)
            offset = len(self.devices)
            visible = 0
            for position, device in enumerate(cut.devices):
                index = offset + position
                self.devices.append(device)
                self.pool_of.append(pool.id)
                self.availability_of.append(cut.availability)
                self.extra_of.append(cut.extra)
                if not reaches(cut, device, self.place) or not self._allowed(cut.extra, device):
                    continue
                self.index[DeviceId(pool.id.driver, pool.id.name, device.name)] = index
                visible |= 1 << position
                self.base |= 1 << index
                if device.shareable and self.features.consumable_capacity:
                    self.shareable |= 1 << index
                if device.shareable or any(entry.policy for entry in device.capacity.values()):
                    self.limited |= 1 << index
                if position in piece.blocking and self.features.device_taints:
                    self.taints[index] = piece.blocking[position]
                    self._tainted |= 1 << index
            self._segments.append((piece, offset, visible))
        self._named[pool.id] = {
            self.devices[index].name: index for index in bits(self.base >> start << start)
        }
        self._pool_masks[pool.id] = ((1 << len(self.devices)) - 1) ^ ((1 << start) - 1)
        if pool.counters:
            self._group(pool, start, types)

    def _allowed(self, extra: Mapping[str, object], device: Device) -> bool:
        if device.binding_conditions and not self.features.device_binding_and_status:
            return False
        if device.consumes and not self.features.partitionable_devices:
            return False
        skips = bool(extra.get("skipNodeOperations"))
        return (
            not skips
            or not self.features.optional_node_operations
            or "DRAOptionalNodeOperations" in self.place.declared
        )

    def _group(self, pool: PoolView, start: int, types: GroupTypes) -> None:
        """Join devices that share counter sets, directly or through others."""
        root: dict[str, str] = {}

        def find(name: str) -> str:
            while root.setdefault(name, name) != name:
                name = root[name]
            return name

        members: dict[str, list[int]] = {}
        consuming = [index for index in range(start, len(self.devices)) if self.devices[index].consumes]
        for index in consuming:
            sets = [need.counter_set for need in self.devices[index].consumes]
            for other in sets[1:]:
                root[find(other)] = find(sets[0])
        for index in consuming:
            members.setdefault(find(self.devices[index].consumes[0].counter_set), []).append(index)
        totals = pool.counters or {}
        by_set: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(totals):
            by_set.setdefault(name[0], []).append(name)
        for indices in members.values():
            sets_used = list(
                dict.fromkeys(need.counter_set for index in indices for need in self.devices[index].consumes)
            )
            counters = tuple(name for used in sets_used for name in by_set.get(used, ()))
            for number, name in enumerate(counters):
                self._counter_of[pool.id, name] = len(self.groups), number
            for used in sets_used:
                self._set_of[pool.id, used] = len(self.groups)
            for local, index in enumerate(indices):
                self.group_of[index] = (len(self.groups), local)
            make = types.reading([consumption(self.devices[index]) for index in indices], counters)
            self.groups.append(
                Group(pool.id, tuple(indices), make, counters, tuple(totals[name] for name in counters))
            )

    def refresh(self, ledger: Ledger) -> None:
        """Take over what is held now."""
        self.exclusive = self.charged = 0
        self.used = {}
        for pool in self._pool_masks:
            for name, holding in ledger.held(pool).items():
                index = self.index.get(DeviceId(pool.driver, pool.name, name))
                if index is not None:
                    self._occupy(index, holding)
        left: dict[int, list[int]] = {}
        for pool in self._pool_masks:
            for counter, used in ledger.counters(pool).items():
                place = self._counter_of.get((pool, counter))
                if used and place is not None:
                    left.setdefault(place[0], list(self.groups[place[0]].totals))[place[1]] -= used
        fit = self.plain
        for number, group in enumerate(self.groups):
            group.state = group.make.state(tuple(left[number])) if number in left else group.fresh
            fit |= group.spread(group.state.fits)
        self.fit = fit | self.charged

    def follow(self, changes: Iterable[Change], ledger: Ledger) -> bool:
        """Take over what is held now of a few devices; False where only `refresh` can tell."""
        if self.shareable:
            return False
        exclusive, fit = self.exclusive, self.fit
        for pool, name, taken, sign in changes:
            rows = self._named.get(pool)
            index = rows.get(name) if rows is not None else None
            if index is None:
                # What is published no longer may still draw from the counters.
                if sign and taken:
                    return False
                continue
            if name in ledger.held(pool):
                exclusive |= 1 << index
            else:
                exclusive &= ~(1 << index)
            if not sign or not taken:
                continue
            device = self.devices[index]
            if taken is not consumption(device):
                # Published differently since it was taken.
                return False
            number, local = self.group_of[index]
            group = self.groups[number]
            group.state = group.state.after(local) if sign > 0 else group.state.before(local)
            fit = fit & ~group.mask | group.spread(group.state.fits)
        self.exclusive, self.fit = exclusive, fit
        return True

    def _occupy(self, index: int, holding: Holding) -> None:
        if holding.exclusive or not self.shareable >> index & 1:
            # A device that is no longer shareable stays with its sharers.
            self.exclusive |= 1 << index
        else:
            self.charged |= 1 << index
            self.used[index] = holding.capacity

    def selected(self, want: Want, answers: Answering) -> tuple[int, dict[int, Flaw]]:
        """Return the devices that pass the class's and the request's selectors, and those on which one fails."""
        key = want.class_selectors, want.selectors
        kind = self.kind
        found = kind.selected.get(key) if kind is not None else None
        if found is None:
            found = self._selected.get(key)
        if found is None:
            found = self._select(*key, answers)
            # Errors name devices, so they are kept apart.
            if (
                kind is not None
                and not found[1]
                and kind.covers(answers(text).reads for text in (*key[0], *key[1]))
            ):
                kind.keep(key, found)
            else:
                self._selected[key] = found
        return found

    def _select(
        self, of_class: tuple[str, ...], own: tuple[str, ...], answers: Answering
    ) -> tuple[int, dict[int, Flaw]]:
        mask = 0
        errors: dict[int, Flaw] = {}
        for piece, offset, visible in self._segments:
            left = visible
            for number, text in enumerate((*of_class, *own)):
                if not left:
                    break
                left, failed = piece.matches(text, left, answers)
                for position, error in failed.items():
                    device = piece.slice.devices[position].id
                    if number < len(of_class):
                        flaw = Flaw("class", f"selector #{number} on device {device}: {error}")
                    else:
                        nth = number - len(of_class)
                        flaw = Flaw(
                            "claim", f"selector #{nth} on device {device}: {error}", f"selectors[{nth}]"
                        )
                    errors[offset + position] = flaw
            mask |= left << offset
        return mask, errors

    def prefixes(self, want: Want, answers: Answering) -> list[int]:
        """Return the devices left after each selector, the class's first: for explanations."""
        masks = [0] * (len(want.class_selectors) + len(want.selectors))
        for piece, offset, visible in self._segments:
            left = visible
            for number, text in enumerate((*want.class_selectors, *want.selectors)):
                left, _ = piece.matches(text, left, answers)
                masks[number] |= left << offset
        return masks

    def id_of(self, index: int) -> DeviceId:
        """Return the name that allocations use for a device."""
        found = self._ids.get(index)
        if found is None:
            pool = self.pool_of[index]
            found = self._ids[index] = DeviceId(pool.driver, pool.name, self.devices[index].name)
        return found

    def tolerating(self, tolerations: tuple[Toleration, ...]) -> int:
        """Return the devices whose taints these tolerations cover."""
        if not self._tainted:
            return self.base
        found = self._tolerated.get(tolerations)
        if found is None:
            found = self.base & ~self._tainted
            for index, taints in self.taints.items():
                if untolerated(taints, tolerations) is None:
                    found |= 1 << index
            self._tolerated[tolerations] = found
        return found

    def charge(self, index: int, want: Want) -> dict[str, Quantity] | Flaw | None:
        """Return what the request takes of the device's capacities; None if it cannot serve, or why it is absurd."""
        key = index, want.capacity
        if key not in self._charges:
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
        kept = kind.values if kind is not None and kind.shares(attribute) else self._values
        found = kept.get(attribute)
        if found is None:
            found = kept[attribute] = {}
            for index in bits(self.base):
                for atom in atoms(self.devices[index].attribute(attribute), self.features):
                    found[atom] = found.get(atom, 0) | 1 << index
        return found

    def holding(self, mask: int) -> int:
        """Return every device of the pools that the mask touches."""
        return sum(devices for devices in self._pool_masks.values() if devices & mask) & self.base


def atoms(value: Attribute | None, features: Features) -> tuple[Atom, ...]:
    """Return the typed values of an attribute: none if it is absent, or a list while the feature is off."""
    if value is None:
        return ()
    if isinstance(value, tuple):
        return tuple(dict.fromkeys(_atom(entry) for entry in value)) if features.list_type_attributes else ()
    return (_atom(value),)


def _atom(value: bool | int | str | Semver) -> Atom:  # noqa: FBT001 - an attribute may be a boolean
    return type(value).__name__, value.text if isinstance(value, Semver) else value
