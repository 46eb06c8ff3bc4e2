"""NodeTemplate: how a node's devices are arranged, shared by all nodes that are built alike.

In: the pools of a node, cut by cut. Out: one object for all nodes whose slices say the same but for names and
attributes: which devices are visible, shareable, tainted, and which draw from the same counters.
"""

from collections.abc import Mapping, Sequence

from apportion.allocator.bits import bits
from apportion.allocator.node.countergroup import GroupTemplate
from apportion.allocator.node.counters import GroupTypes
from apportion.allocator.node.poolonnode import PoolOnNode
from apportion.allocator.rules.pools import consumption
from apportion.dra.device import Device
from apportion.dra.taint import Taint

MOST_KEPT = 4096
"""NodeTemplates that are remembered; nodes keep the one that they have."""


class NodeTemplate:
    """What nodes that are built alike have in common."""

    __slots__ = (
        "base",
        "build",
        "casts",
        "counter_of",
        "cut_of",
        "cuts",
        "group_of",
        "limited",
        "plain",
        "pool_masks",
        "pool_of_group",
        "shareable",
        "tainted",
        "taints",
        "taken",
    )

    def __init__(self, parts: Sequence[PoolOnNode], types: GroupTypes, *, shares: bool, taints: bool) -> None:
        devices: list[Device] = []
        cuts: list[tuple[int, int, int]] = []
        cut_of: list[int] = []
        masks: list[int] = []
        self.base = self.shareable = self.limited = self.tainted = 0
        """Devices that may be used at all; that several may use; whose capacity decides even when a request names none;
        with a taint that keeps new users away."""
        self.taints: dict[int, tuple[Taint, ...]] = {}
        self.casts: list[GroupTemplate] = []
        self.group_of: dict[int, tuple[int, int]] = {}
        """Device -> (group, position in the group)."""
        self.counter_of: dict[tuple[int, tuple[str, str]], tuple[int, int]] = {}
        """Pool and counter -> (group, position of the counter)."""
        for number, part in enumerate(parts):
            start = len(devices)
            for piece, visible in part.cuts:
                offset = len(devices)
                devices += piece.slice.devices
                cut_of += [len(cuts)] * len(piece.slice.devices)
                cuts.append((number, offset, visible))
                self.base |= visible << offset
                pattern = piece.pattern
                if shares:
                    self.shareable |= (visible & pattern.shareable) << offset
                self.limited |= (visible & pattern.limited) << offset
                for position, kept in pattern.blocking.items() if taints else ():
                    if visible >> position & 1:
                        self.taints[offset + position] = kept
                        self.tainted |= 1 << offset + position
            masks.append((1 << len(devices)) - (1 << start))
            if part.counters:
                self._join(number, part.counters, devices, start, types)
        self.taken = tuple([consumption(device) for device in devices])
        """What every device takes from counters."""
        self.cuts = tuple(cuts)
        """Pool, first device and visible devices of every slice."""
        self.cut_of = tuple(cut_of)
        self.pool_masks = tuple(masks)
        self.pool_of_group = tuple(cast.pool for cast in self.casts)
        self.plain = self.base & ~sum(cast.mask for cast in self.casts)
        """Devices without counters."""
        tainted: dict[tuple[Taint, ...], int] = {}
        for index, kept in self.taints.items():
            tainted[kept] = tainted.get(kept, 0) | 1 << index
        self.build = (
            tuple((part.driver, part.binds) for part in parts),
            tuple(mask.bit_length() for mask in masks),
            self.base,
            tuple((cast.make, cast.mask, cast.totals) for cast in self.casts),
            tuple(tainted.items()),
        )
        """All that a search reads besides attributes, capacities and what is held; without names."""

    def _join(
        self,
        pool: int,
        totals: Mapping[tuple[str, str], int],
        devices: Sequence[Device],
        start: int,
        types: GroupTypes,
    ) -> None:
        """Join devices that share counter sets, directly or through others."""
        root: dict[str, str] = {}

        def find(name: str) -> str:
            while root.setdefault(name, name) != name:
                name = root[name]
            return name

        members: dict[str, list[int]] = {}
        consuming = [index for index in range(start, len(devices)) if devices[index].consumes]
        for index in consuming:
            sets = [need.counter_set for need in devices[index].consumes]
            for other in sets[1:]:
                root[find(other)] = find(sets[0])
        for index in consuming:
            members.setdefault(find(devices[index].consumes[0].counter_set), []).append(index)
        by_set: dict[str, list[tuple[str, str]]] = {}
        for name in sorted(totals):
            by_set.setdefault(name[0], []).append(name)
        for indices in members.values():
            sets_used = dict.fromkeys(
                need.counter_set for index in indices for need in devices[index].consumes
            )
            counters = tuple(name for used in sets_used for name in by_set.get(used, ()))
            for number, name in enumerate(counters):
                self.counter_of[pool, name] = len(self.casts), number
            for local, index in enumerate(indices):
                self.group_of[index] = (len(self.casts), local)
            make = types.reading([consumption(devices[index]) for index in indices], counters)
            amounts = tuple(totals[name] for name in counters)
            follow = indices[-1] - indices[0] + 1 == len(indices)
            self.casts.append(
                GroupTemplate(
                    pool,
                    tuple(indices),
                    make,
                    counters,
                    amounts,
                    sum(1 << index for index in indices),
                    indices[0] if follow else None,
                    make.state(amounts),
                )
            )


class NodeTemplates:
    """The anatomies seen so far, and the lists of device names."""

    def __init__(self, types: GroupTypes, *, shares: bool, taints: bool) -> None:
        self._types = types
        self._shares = shares
        self._taints = taints
        self._kept: dict[object, NodeTemplate] = {}
        self._rolls: dict[object, Mapping[str, int]] = {}

    def of(self, parts: Sequence[PoolOnNode]) -> NodeTemplate:
        """Return the one object for these pools."""
        key = tuple(
            [
                (
                    part.driver,
                    part.binds,
                    tuple([(cut.piece.pattern, cut.visible) for cut in part.cuts]),
                    tuple(part.counters.items()),
                )
                for part in parts
            ]
        )
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            found = self._kept[key] = NodeTemplate(
                parts, self._types, shares=self._shares, taints=self._taints
            )
        return found

    def roll(self, devices: Sequence[Device], mask: int) -> Mapping[str, int]:
        """Return the positions of a pool's visible devices by name; nodes whose devices have equal names share it."""
        if not mask:
            return {}
        names = tuple(
            [device.name for device in devices[(mask & -mask).bit_length() - 1 : mask.bit_length()]]
        )
        key = names, mask
        found = self._rolls.get(key)
        if found is None:
            if len(self._rolls) >= MOST_KEPT:
                self._rolls.clear()
            found = self._rolls[key] = {devices[index].name: index for index in bits(mask)}
        return found

    def __len__(self) -> int:
        return len(self._kept) + len(self._rolls)
