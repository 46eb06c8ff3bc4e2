"""Hardware: every backend of this node behind asynchronous calls.

In: backends. Out: their answers, from threads, with at most one changing call per card at a time. A driver call that
hangs holds up its own card only.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar, TypeVarTuple

from apportion.agent.devices.backend import Backend
from apportion.agent.devices.values import Card, Edits, Health, LivePartition, PartitionPlace
from apportion.errors import Unsupported

Arguments = TypeVarTuple("Arguments")
R = TypeVar("R")
_THREADS = 32
"""More than any node has cards."""


class Hardware:
    """All cards of the node."""

    def __init__(self, backends: Sequence[Backend]) -> None:
        self._backends = tuple(backends)
        # Threads of its own: drivers that hang must not hold up the writes of the journal.
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="hardware")
        self._owner: dict[str, Backend] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self.cards: Mapping[str, Card] = {}
        """By name, as last discovered."""

    async def discover(self) -> Mapping[str, Card]:
        """Ask every backend for its cards and remember which backend owns which."""
        found = await asyncio.gather(*(self._call(backend.devices) for backend in self._backends))
        self._owner = {
            card.name: backend for backend, cards in zip(self._backends, found, strict=True) for card in cards
        }
        self.cards = {card.name: card for cards in found for card in cards}
        return self.cards

    @property
    def incomplete(self) -> bool:
        """Whether another discovery may find more."""
        return any(backend.incomplete() for backend in self._backends)

    async def edits(self, card: str) -> Edits:
        """Return what a container needs for a whole card now; errors are those of `Backend.edits`."""
        return await self._call(self._backend(card).edits, card)

    async def partitions(self) -> tuple[LivePartition, ...]:
        """List what exists on all cards."""
        found = await asyncio.gather(*(self._call(backend.partitions) for backend in self._backends))
        return tuple(live for partitions in found for live in partitions)

    async def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List what exists on one card, nothing for one that the node has not; raises HardwareError when it is unknown."""
        owner = self._owner.get(card)
        # A card that did not answer at discovery has no owner, and its backend knows that it is there.
        asked = self._backends if owner is None else (owner,)
        found = await asyncio.gather(*(self._call(backend.partitions_of, card) for backend in asked))
        return tuple(live for partitions in found for live in partitions)

    async def create(self, place: PartitionPlace) -> LivePartition:
        """Make a partition; errors are those of `Backend.create`."""
        async with self._alone(place.card) as backend:
            return await self._call(backend.create, place)

    async def destroy(self, live: LivePartition) -> None:
        """Remove a partition; errors are those of `Backend.destroy`."""
        async with self._alone(live.card) as backend:
            await self._call(backend.destroy, live)

    async def make_whole(self, card: str) -> None:
        """Make an empty card usable uncut; errors are those of `Backend.make_whole`."""
        async with self._alone(card) as backend:
            await self._call(backend.make_whole, card)

    async def health(self) -> dict[str, Health]:
        """Return the health of all cards; cards that no backend names are healthy."""
        found = await asyncio.gather(*(self._call(backend.health) for backend in self._backends))
        said = {name: health for answer in found for name, health in answer.items()}
        return {name: said.get(name, Health.HEALTHY) for name in self.cards}

    async def _call(self, verb: Callable[[*Arguments], R], *args: *Arguments) -> R:
        return await asyncio.get_running_loop().run_in_executor(self._threads, verb, *args)

    def _backend(self, card: str) -> Backend:
        if card not in self._owner:
            raise Unsupported(f"no card {card} on this node")
        return self._owner[card]

    @asynccontextmanager
    async def _alone(self, card: str) -> AsyncIterator[Backend]:
        """Yield the card's backend while no other call changes the card."""
        backend = self._backend(card)
        async with self._locks.setdefault(card, asyncio.Lock()):
            yield backend
