"""LiveCluster: the cluster as watches show it, in a thread that answers one question after the other.

In: a client. Out: answers about the cluster as it is at that moment, and how old what it shows is. Watches and connections have the event
loop, and the world has one thread, so that a long answer delays neither; a change waits for the end of an answer.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from apportion.cli.world.needed import needed
from apportion.cli.world.objects import DECIDING, VOLUME_KINDS
from apportion.cli.world.packedobjects import PackedObjects, packed, unpacked
from apportion.cli.world.world import World
from apportion.cluster import kinds
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.reflector import Reflector
from apportion.errors import ApportionError
from apportion.web.memory import MemoryLimit, ShortOfMemory
from apportion.web.observed import Observed

_T = TypeVar("_T")
MOST_WAITING = 32
"""Answers that may be waited for at once."""
_OPTIONAL = kinds.OPTIONAL | {kinds.HOLDS, *VOLUME_KINDS}
_PAGE = 100
"""Objects of one answer to a list: before they are packed, slices take a hundred times the memory."""
_PACE = 0.2
"""Seconds between two looks for changes that no answer has taken in."""
_AT_ONCE = 500
"""Changes that are taken in before an answer may have its turn."""


class NotListedError(ApportionError):
    """Kinds are not listed yet, so that nothing true could be said: they are under way, or the API server refuses them, as it says then."""


class BusyError(ApportionError):
    """Too many answers are waited for."""


@dataclass(frozen=True, slots=True)
class Age:
    """How long ago the server said something about the kinds that are watched; where nothing changes it does so about once a minute."""

    youngest: float
    """Seconds, of the kind that was heard of last."""
    oldest: float
    """Seconds, of the kind that has been silent for the longest time."""
    kind: str
    """That kind."""


class LiveCluster:
    """A cluster that is watched and asked about."""

    def __init__(
        self,
        client: Client,
        version: str,
        schedulers: frozenset[str],
        drivers: frozenset[str],
        memory: MemoryLimit | None = None,
    ) -> None:
        """`schedulers`: those that the operator serves, empty: kube-scheduler alone; `drivers`: further ones of agents; `memory`: what it must fit into, None: anything."""
        self._memory = memory or MemoryLimit(None)
        self._observed = Observed(World((), version, schedulers, drivers, PackedObjects()))
        self._changes: deque[tuple[ResourceKind, str, bytes]] = deque()
        """Packed, because a cluster is listed sooner than it is taken in."""
        self._thread = ThreadPoolExecutor(1, "world")
        self._waiting = 0
        self.reflectors = [
            Reflector(client, kind, self._observe, optional=kind in _OPTIONAL, page=_PAGE)
            for kind in DECIDING
        ]

    async def run(self) -> None:
        """Follow the cluster until cancelled. Raises ShortOfMemory when it does not fit."""
        try:
            async with asyncio.TaskGroup() as group:
                for each in self.reflectors:
                    group.create_task(each.run())
                while True:
                    await asyncio.sleep(_PACE)
                    self._memory.check()
                    while self._changes:
                        await self._in_thread(self._take_in)
                        self._memory.check()
        except BaseExceptionGroup as group:
            if group.subgroup((MemoryError, ShortOfMemory)) is None:
                raise
            raise self._memory.short() from None
        finally:
            self._thread.shutdown(cancel_futures=True)

    async def ask(self, answer: Callable[[Observed], _T]) -> _T:
        """Return an answer about the cluster as it is now. Raises NotListedError, BusyError, ShortOfMemory."""
        missing = [each for each in self.reflectors if not each.synced.is_set()]
        if missing:
            refused = [each.refused for each in missing if each.refused]
            why = f"; the API server refuses {len(refused)} of these kinds: {refused[0]}" if refused else ""
            raise NotListedError(f"not listed yet: {', '.join(each.kind.plural for each in missing)}{why}")
        if self._waiting >= MOST_WAITING:
            raise BusyError(f"{self._waiting} other answers are waited for")
        self._waiting += 1
        try:
            return await self._in_thread(lambda: self._answer(answer))
        except MemoryError:
            raise self._memory.short() from None
        finally:
            self._waiting -= 1

    def age(self) -> Age:
        """Return how old what it shows is."""
        ages = [(each.age(), each.kind.plural) for each in self.reflectors]
        oldest, kind = max(ages)
        return Age(min(ages)[0], oldest, kind)

    def _observe(self, kind: ResourceKind, change: str, raw: Object) -> None:
        gone = change == "DELETED"
        kept = raw if gone else needed({"apiVersion": kind.api_version, "kind": kind.name, **raw})
        self._changes.append((kind, change, packed(kept)))

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def _answer(self, answer: Callable[[Observed], _T]) -> _T:
        while self._changes:
            self._take_in()
        volumes, complete = self._observed.snapshot.volumes, self._knows_volumes()
        if volumes.complete != complete:
            volumes.know(complete=complete)
        self._observed.refresh()
        return answer(self._observed)

    def _knows_volumes(self) -> bool:
        """Say whether all volumes are listed, so that one that is not does not exist."""
        return all(each.listed for each in self.reflectors if each.kind in VOLUME_KINDS)

    def _take_in(self) -> None:
        for _ in range(min(_AT_ONCE, len(self._changes))):
            kind, change, content = self._changes.popleft()
            self._observed.world.observe(kind, change, unpacked(content))
