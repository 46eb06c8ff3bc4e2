"""Cards: counter groups that one device takes as a whole, and who is in the way on each.

In: a state, what may move. Out: the cards of each node. No model is known by name: a card is a group of devices that share counters, one of which leaves
nothing to the others. Devices without counters are no cards: who has one needs another one, so no move frees any.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.bits import bits
from apportion.allocator.defrag.moves import Movable
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.taint import Toleration


@dataclass(frozen=True, slots=True)
class Card:
    """One card."""

    node: str
    group: int
    """Its counter group, by position in the node's view."""
    device: DeviceId
    """The device that takes all of it."""
    free: bool
    movables: tuple[Movable, ...] = ()
    """Who has to go."""

    @property
    def key(self) -> str:
        """What it is held under in the state while a plan is made."""
        return f"defrag:{self.device}"

    @property
    def holds(self) -> tuple[DeviceResult, ...]:
        """What is held to keep others off."""
        return (DeviceResult("defrag", self.device),)

    @property
    def pods(self) -> int:
        """How many pods are restarted at least until it is free."""
        return sum(each.pods for each in self.movables)

    @property
    def cost(self) -> int:
        """What these restarts cost."""
        return sum(each.cost for each in self.movables)


def cards(
    state: State, movables: Sequence[Movable], tolerations: tuple[Toleration, ...] = ()
) -> Iterator[Card]:
    """Yield the cards that are free, and those that would be if what may move had moved; those with other taints are left out."""
    by_device: dict[DeviceId, Movable] = {device: each for each in movables for device in each.devices}
    for name in sorted(state.names()):
        view = state.view(name)
        usable = view.base & view.tolerating(tolerations)
        for number, group in enumerate(view.groups):
            device = whole_device(view, number, usable)
            if device is None:
                continue
            there: dict[str, Movable] = {}
            left = list(group.state.left)
            known = True
            for index in bits(group.mask & (view.exclusive | view.charged)):
                found = by_device.get(view.id_of(index))
                if found is None or view.charged >> index & 1:
                    known = False
                    break
                there[found.key] = found
                for counter, amount in group.group_type.needs[view.group_of[index][1]]:
                    left[counter] += amount
            counters = len(group.counters)
            if known and tuple(left[:counters]) == group.totals[:counters]:
                yield Card(name, number, view.id_of(device), not there, tuple(there.values()))


def whole_device(view: NodeView, number: int, usable: int) -> int | None:
    """Return the device of a group that leaves nothing to the others; None: there is none that can be used."""
    group = view.groups[number]
    for local in bits(group.gather(usable & group.mask) & group.fresh.fits):
        if not group.fresh.after(local).fits:
            return group.members[local]
    return None


def by_device(found: Sequence[Card]) -> Mapping[DeviceId, Card]:
    """Return cards by the device that takes all of them."""
    return {each.device: each for each in found}
