"""Hardware: every backend of this node behind asynchronous calls.

In: backends. Out: their answers, each from a thread of its own, with at most one changing call per card at a time. Every card
is asked by itself, with a deadline: a driver call that hangs holds up its own card only, which counts as sick meanwhile and
is neither asked nor changed anew before the call is back.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import MappingProxyType
from typing import Any, Final, TypeVar, TypeVarTuple

import structlog
from prometheus_client import Histogram

from apportion import metrics
from apportion.agent.devices.backend import Backend, OnFabric, Releasable
from apportion.agent.devices.findings import Findings
from apportion.agent.devices.lastseen import without
from apportion.agent.devices.sharing import Sharable, Sharing
from apportion.agent.devices.threads import Threads
from apportion.agent.devices.values import Card, Edits, Health, LivePartition, PartitionPlace
from apportion.agent.devices.walk import Walk
from apportion.errors import BrokenInput, HardwareError, Lost, Silent, Unsupported

_log = structlog.get_logger()

Arguments = TypeVarTuple("Arguments")
R = TypeVar("R")
_LONGEST_DISCOVERY: Final = 60.0
"""Seconds for the first look at all cards of a backend; opening them may take long."""
_LONGEST_END: Final = 3.0
"""Seconds for changes that are out when the process ends."""
_LONGEST_SETUP: Final = 120.0
"""Seconds for what shares a card; systemd and nvidia-smi have deadlines of their own, and the driver has none."""


class Hardware:
    """All cards of the node."""

    def __init__(
        self,
        backends: Sequence[Backend],
        *,
        awaited: Mapping[str, str] = MappingProxyType({}),
        patience: float = 5.0,
        longest_change: float = 30.0,
    ) -> None:
        """`awaited`: why kinds of cards that the node may have are in none of the backends: their driver is not there.

        `patience`: seconds after which a card's answer is overdue. Walks over a busy node take seconds, one answer does not.
        `longest_change`: the same for a call that changes a card; a switch of its mode takes seconds.
        """
        self._backends = tuple(backends)
        self._awaited = awaited
        self._patience = patience
        self._longest_change = longest_change
        self._threads = Threads()
        self._findings = {backend: Findings(backend, self._threads) for backend in self._backends}
        self._owner: dict[str, Backend] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._overdue: dict[str, set[asyncio.Future[Any]]] = defaultdict(set)
        """Calls by card that are out although their deadline is over."""
        self._changing: dict[str, set[asyncio.Future[Any]]] = defaultdict(set)
        """What changes cards, by card, until it is back, also when nobody waits for it any more; a loop keeps no task that nobody has."""
        self._seen: dict[str, tuple[LivePartition, ...]] = {}
        self._fabric: dict[str, str] = {}
        """Why cards have not joined their fabric, "" for those that have."""
        self.cards: Mapping[str, Card] = {}
        """By name, as last discovered."""

    async def discover(self) -> Mapping[str, Card]:
        """Ask every backend for its cards; one that fails keeps those that it had, and the others go on.

        Raises BrokenInput when two backends have a card of one name.
        """
        patience = self._patience if self.cards else _LONGEST_DISCOVERY
        found = await asyncio.gather(*(each.discover(patience) for each in self._findings.values()))
        owner: dict[str, Backend] = {}
        for backend, cards in zip(self._backends, found, strict=True):
            for card in cards:
                if card.name in owner:
                    raise BrokenInput(f"two backends of this node have a card {card.name}", field="backend")
                owner[card.name] = backend
        self._owner = owner
        self.cards = {card.name: card for cards in found for card in cards}
        return self.cards

    async def look(self) -> bool:
        """Ask whether another discovery may find more, and say so; a backend that does not answer in time is as it was."""
        await asyncio.gather(*(each.look(self._patience) for each in self._findings.values()))
        return self.incomplete

    @property
    def incomplete(self) -> bool:
        """Whether another discovery may find more, as far as was seen at the last discovery or look."""
        return any(each.incomplete for each in self._findings.values())

    @property
    def failures(self) -> tuple[HardwareError, ...]:
        """Errors of backends that could not be asked for their cards at the last discovery."""
        return tuple(each.failure for each in self._findings.values() if each.failure is not None)

    @property
    def unknown(self) -> tuple[str, ...]:
        """Why the node may have cards that are not in `cards`, for people; nothing when all is known."""
        silent = ["a card did not answer when cards were looked for"] if self.incomplete else []
        return (*self._awaited.values(), *map(str, self.failures), *silent)

    async def edits(self, card: str) -> Edits:
        """Return what a container needs for a whole card now; errors are those of `Backend.edits`, Lost when it is overdue."""
        return await self._ask(card, self._backend(card).edits, card)

    async def partitions(self) -> tuple[LivePartition, ...]:
        """List what exists on all cards; a card that does not answer shows what was last seen on it."""
        calls = {card: partial(owner.partitions, (card,)) for card, owner in self._owner.items()}
        self._seen |= await self._walk(calls, "hardware.unreadable")
        return tuple(live for card in self.cards for live in self._seen.get(card, ()))

    async def partitions_of(self, card: str) -> tuple[LivePartition, ...]:
        """List what exists on one card, nothing for one that the node has not; raises HardwareError when it is unknown."""
        owner = self._owner.get(card)
        why = next((why for kind, why in self._awaited.items() if card.startswith(f"{kind}-")), "")
        if owner is None and (why or self.failures):
            why = why or str(self.failures[0])
            raise Lost(f"{card}: nobody knows what is on it: {why}")
        # A card that did not answer at discovery has no owner, and its backend knows that it is there.
        asked = self._backends if owner is None else (owner,)
        found = await asyncio.gather(*(self._ask(card, backend.partitions_of, card) for backend in asked))
        return tuple(live for partitions in found for live in partitions)

    async def create(self, place: PartitionPlace) -> LivePartition:
        """Make a partition; errors are those of `Backend.create`, and Lost when nobody knows yet whether it was made."""
        with self._timed(metrics.CUT_SECONDS, place.card):
            return await self._change(place.card, lambda backend: backend.create(place))

    async def destroy(self, live: LivePartition) -> None:
        """Remove a partition; errors are those of `Backend.destroy`, and Lost when nobody knows yet whether it is gone."""
        with self._timed(metrics.REMOVAL_SECONDS, live.card):
            await self._change(live.card, lambda backend: backend.destroy(live))
        self._seen[live.card] = without(self._seen.get(live.card, ()), live)

    @contextmanager
    def _timed(self, histogram: Histogram, card: str) -> Iterator[None]:
        """Observe how long a change took, or a refusal of it."""
        began, result = time.monotonic(), "failed"
        try:
            yield
            result = "done"
        finally:
            kind = self.cards[card].kind if card in self.cards else "unknown"
            histogram.labels(kind, result).observe(time.monotonic() - began)

    async def make_whole(self, card: str) -> None:
        """Make an empty card usable uncut; errors are those of `Backend.make_whole`, and Lost as in `create`."""
        await self._change(card, lambda backend: backend.make_whole(card))

    async def set_up(self, card: str, act: Callable[[Sharing], R]) -> R:
        """Change how programs share a card. Raises Unsupported where its backend cannot, the errors of `Sharing`, and Lost as in `create`."""

        def change(backend: Backend) -> R:
            if not isinstance(backend, Sharable):
                raise Unsupported(f"{card}: how its programs share it cannot be set")
            return act(backend.sharing)

        return await self._change(card, change, seconds=_LONGEST_SETUP)

    def changes(self, card: str) -> tuple[asyncio.Future[Any], ...]:
        """Return what changes a card now, or will, also when nobody waits for it any more."""
        return tuple(self._changing.get(card, ()))

    async def settle(self) -> None:
        """Wait for what changes cards now, for seconds: the end of the process would leave a partition half made, for the next agent to make anew."""
        if out := [call for calls in self._changing.values() for call in calls]:
            await asyncio.wait(out, timeout=_LONGEST_END)

    async def daemons(self) -> dict[str, bool]:
        """Return the control daemons of this node by name, and whether each is ready; raises HardwareError."""
        found: dict[str, bool] = {}
        for backend in self._backends:
            if isinstance(backend, Sharable):
                found |= await self._call(backend.sharing.daemons)
        return found

    async def stop_daemon(self, name: str) -> None:
        """End a control daemon, whichever backend has it; errors are those of `Sharing.stop_daemon`."""
        for backend in self._backends:
            if isinstance(backend, Sharable):
                await self._call(backend.sharing.stop_daemon, name)

    async def health(self) -> dict[str, Health]:
        """Return the health of all cards; one that does not say it, or not in time, is sick."""
        families: dict[str, list[str]] = defaultdict(list)
        for card in self.cards.values():
            families[card.part_of if card.part_of in self.cards else card.name].append(card.name)
        # A look at a card says how its parts are.
        calls = {head: partial(self._owner[head].health, family) for head, family in families.items()}
        answers = await self._walk(calls, "hardware.health_unknown")
        return {
            name: answers[head].get(name, Health.HEALTHY) if head in answers else Health.SICK
            for head, family in families.items()
            for name in family
        }

    async def fabric(self) -> Mapping[str, str]:
        """Return why cards have not joined their fabric, by card; one that cannot be asked is as it was, at first Unknown."""
        calls = {
            card: partial(backend.fabric, card)
            for backend in self._backends
            if isinstance(backend, OnFabric)
            for card in backend.fabric_cards()
        }
        answers = await self._walk(calls)
        self._fabric = {card: answers.get(card, self._fabric.get(card, "Unknown")) for card in calls}
        return {card: why for card, why in self._fabric.items() if why and card in self.cards}

    async def release(self, why: str) -> bool:
        """Let go of the drivers that can be exchanged under the agent; returns whether there is one."""
        found = [backend for backend in self._backends if isinstance(backend, Releasable)]
        await asyncio.gather(*(self._call(backend.release, why) for backend in found))
        return bool(found)

    async def answers(self) -> bool:
        """Say whether a driver that was let go of, or the next one, answers."""
        found = [backend for backend in self._backends if isinstance(backend, Releasable)]
        return any(await asyncio.gather(*(self._call(backend.answers) for backend in found)))

    async def _walk(self, calls: Mapping[str, Callable[[], R]], log: str = "") -> dict[str, R]:
        """Return what cards answer, by card; a card is not asked while an earlier call is out.

        `log`: the event of the log line for a card that gives no answer; "": none is written.
        """
        walk = Walk(
            {card: call for card, call in calls.items() if not self._overdue[card]},
            patience=self._patience,
        )
        await walk.run(self._threads)
        for card, out in walk.overdue.items():
            _keep(self._overdue[card], out)
        for card in calls.keys() - walk.answers.keys() if log else ():
            _log.warning(log, card=card, error=str(walk.errors.get(card, _late(card))))
        return walk.answers

    async def _ask(self, card: str, verb: Callable[[*Arguments], R], *args: *Arguments) -> R:
        """Return a card's answer; raises its HardwareError, or Lost when it is overdue or an earlier one still is."""
        if self._overdue[card]:
            raise _late(card)
        answer = self._threads.call(verb, *args)
        await asyncio.wait({answer}, timeout=self._patience)
        if answer.done():
            return answer.result()
        _keep(self._overdue[card], answer)
        raise _late(card)

    async def _call(self, verb: Callable[[*Arguments], R], *args: *Arguments) -> R:
        return await self._threads.call(verb, *args)

    def _backend(self, card: str) -> Backend:
        if card not in self._owner:
            raise Unsupported(f"no card {card} on this node")
        return self._owner[card]

    async def _change(self, card: str, act: Callable[[Backend], R], *, seconds: float = 0.0) -> R:
        """Return what a call that changes a card answers, while no other call changes it.

        One that is overdue may still do its work. Until it is back, the card is neither changed nor asked, so that nothing is taken for
        done or undone before the hardware is read. A caller that is cancelled leaves the change to its end.
        """
        changing = asyncio.ensure_future(self._changed(card, act, seconds or self._longest_change))
        _keep(self._changing[card], changing)
        # Its error is nobody's when the caller is gone.
        changing.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(changing)

    async def _changed(self, card: str, act: Callable[[Backend], R], seconds: float) -> R:
        backend = self._backend(card)
        async with self._locks.setdefault(card, asyncio.Lock()):
            if self._overdue[card]:
                raise _late(card)
            answer = self._threads.call(act, backend)
            _keep(self._changing[card], answer)
            await asyncio.wait({answer}, timeout=seconds)
            if answer.done():
                return answer.result()
            _keep(self._overdue[card], answer)
            raise Silent(f"{_late(card)}; whether it has done what it was asked for is known when it does")


def _late(card: str) -> Silent:
    return Silent(f"{card}: the driver has not answered in time")


def _keep(calls: set[asyncio.Future[Any]], call: asyncio.Future[Any]) -> None:
    """Keep a call among others until it is back."""
    calls.add(call)
    call.add_done_callback(calls.discard)
