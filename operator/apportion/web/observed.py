"""Observed: a cluster that pages are made from, with what is kept between two answers about it.

In: a world that follows the cluster. Out: decisions about what waits, and numbers about all of it. One thread at a time may use it.
"""

from collections import Counter
from collections.abc import Mapping

from apportion.cli.answers.counts import counts_of
from apportion.cli.answers.decisions import Decisions
from apportion.cli.answers.largest import DeviceKind, Left, kind_of_device
from apportion.cli.answers.left import left_of
from apportion.cli.world.holds import said
from apportion.cli.world.world import World
from apportion.scheduling.demands.waitingqueue import WaitingQueue


class Observed:
    """A cluster and what was computed of it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.snapshot = world.snapshot
        self._queue = WaitingQueue(world.snapshot)
        self._learnt: set[str] = set()
        """Demands (keys) that the allocator has learnt."""
        self._cards: tuple[int, tuple[str, ...], Counter[str]] = -1, (), Counter()
        """Nodes with cards, and cards by model, as of an epoch of slices."""

    def refresh(self) -> None:
        """Bring what depends on several objects up to date; before each answer."""
        self.world.reserve()
        self.snapshot.state.settle()

    def decisions(self) -> Decisions:
        """Return what decides about the demands that wait now."""
        return Decisions(self.snapshot, self.world.holds, self._queue, self._learnt)

    def counts(self) -> Mapping[str, int]:
        """Return how many claims are served, wait, and are served by nobody as they are."""
        return counts_of(self.snapshot, *self._queue.demands())

    def nodes(self) -> tuple[str, ...]:
        """Return the nodes that have cards, sorted; empty text: cards that several nodes could use."""
        return self._counted()[1]

    def models(self) -> Mapping[str, int]:
        """Return the number of cards of each model."""
        return self._counted()[2]

    def left(self) -> Mapping[DeviceKind, Left]:
        """Return how many devices of each kind are left."""
        return left_of(self.snapshot, self.world.holds)

    def holds(self) -> Mapping[str, str]:
        """Return in words what is held beside allocations, by DeviceHold."""
        return {name: said(each) for name, each in sorted(self.world.holds.found.items())}

    def _counted(self) -> tuple[int, tuple[str, ...], Counter[str]]:
        if self._cards[0] != self.snapshot.slice_epoch:
            devices = self.snapshot.devices
            nodes, models = set(), Counter[str]()
            for piece in self.snapshot.slices.values():
                for device in piece.devices:
                    if devices.card(device.id) == device.id:
                        nodes.add(piece.availability.node or "")
                        models[kind_of_device(device).model] += 1
            self._cards = self.snapshot.slice_epoch, tuple(sorted(nodes)), models
        return self._cards
