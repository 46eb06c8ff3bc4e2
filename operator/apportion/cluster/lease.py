"""Lease: one replica acts, the others only observe.

In: a client, a name, an identity. Out: `remaining()` seconds for which this replica may still write, by a clock of its own
that never goes back, and goes on while the machine is suspended (CLOCK_BOOTTIME): another replica leads by then. They
are counted from before the request that won or renewed the lease was sent. A holder that cannot renew stops writing
before anybody else may begin (coordination.k8s.io/v1 Lease, the rules of client-go leaderelection).

`run` may have a thread of its own, so that no pass delays a renewal: `remaining` and `fence` read one number, and `gained`
and `lost` are set in the event loop of the tasks that wait for them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import ContextVar
from datetime import UTC, datetime
from math import ceil
from typing import Any

import structlog

from apportion import metrics
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import LEASES
from apportion.cluster.observedterm import NOTICE, ObservedTerm
from apportion.errors import ApiError, Missing, NotLeading, Overtaken

_log = structlog.get_logger()
_FOLLOW = 0.5
"""Seconds between two tries of a follower, at most."""
_MARGIN = 0.05
"""Seconds after the end of another's term at which a follower tries."""
_RELEASED = 1
"""Seconds that a lease lasts whose holder has released it, as client-go writes them; one that was emptied by others keeps its term."""
_REST = 2.0
"""Terms for which a replica that gave the lease back does not try again."""
_LOGGED = 60.0
"""Seconds between two log lines about tries that failed."""

_TERM: ContextVar[int | None] = ContextVar("lease_term", default=None)
"""The term for which a task works, and all tasks that it has started; None: for none."""

Tell = Callable[[Callable[[], None]], object]
"""Calls a function in the event loop of the tasks that wait for `gained` and `lost`."""


class Lease:
    """The right to act, held by at most one replica at a time."""

    def __init__(
        self,
        *,
        namespace: str,
        name: str,
        identity: str,
        clock: Callable[[], float],
        now: Callable[[], datetime],
        duration: float = 15.0,
        renew: float = 4.0,
        reserve: float = 5.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        unfit: Callable[[], str | None] = lambda: None,
        tell: Tell = lambda say: say(),
        writing: Callable[[], bool] = lambda: False,
        unknown: Callable[[], bool] = lambda: False,
        ending: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare; nothing is asked for before `run`.

        `duration`: seconds that a won lease lasts; `renew`: seconds between renewals; `reserve`: seconds that must be
        left for a write to begin, at least the time-out of one request; `unfit` says why this replica must not lead: it
        does not try then, and gives back what it holds; `writing` says whether a write of this replica may still be carried
        out: at the end the lease is then not released but runs out; `unknown` says whether one may that was begun longer ago
        than a request takes: an unfit replica's lease is then not released either; `ending` is called where `gained` is set,
        shortly before another's term ends that was not renewed.
        """
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._now = now
        self._duration = duration
        self._renew = renew
        self._reserve = reserve
        self._sleep = sleep
        self._unfit = unfit
        self._tell = tell
        self._writing = writing
        self._unknown = unknown
        self._ending = ending
        self._until = 0.0
        self._since: float | None = None
        """When this replica began to lead; None for a follower."""
        self._record: Object | None = None
        """The Lease as we last wrote it, while we lead; None after a renewal that failed."""
        self._ours: object = None
        """What tells our term from others: `_term_of` the Lease."""
        self._rests_until = self._logged = float("-inf")
        """`_logged`: when a try was last logged that failed, and none has succeeded since."""
        self._overtaken = 0
        """Tries in a row at which another one was first, or a webhook refused with the status of that (409)."""
        self._other = ObservedTerm(clock)
        self.gained = asyncio.Event()
        """Set while this replica leads."""
        self.lost = asyncio.Event()
        """Set while it does not."""
        self.terms = 0
        """How often this replica has begun to lead; `gained` and `lost` follow in the event loop of the tasks that wait for them."""
        self.lost.set()

    def remaining(self) -> float:
        """Seconds of leadership left; 0 for a follower."""
        return max(0.0, self._until - self._clock())

    def held(self) -> float:
        """Seconds since this replica began to lead; 0 for a follower."""
        since = self._since
        return 0.0 if since is None else self._clock() - since

    def work_for(self, term: int) -> None:
        """Let the current task, and those that it starts from now on, write in this term (a value of `terms`) only."""
        _TERM.set(term)

    def fence(self) -> None:
        """Raise NotLeading unless a write that starts now ends within our term, which is the one that the current task works for."""
        if self.remaining() < self._reserve:
            raise NotLeading(f"lease {self._namespace}/{self._name}: {self.remaining():.1f} s left")
        if self._is_over():
            raise NotLeading(f"lease {self._namespace}/{self._name}: this was decided in a former term")

    async def sleep(self, seconds: float) -> None:
        """Sleep, not beyond the end of the term that the current task works for."""
        if not self._is_over():
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self.lost.wait()

    def _is_over(self) -> bool:
        # `_attempt` counts a term before it prolongs `_until`: who finds time left here finds the new number, too.
        return _TERM.get() not in (None, self.terms)

    async def run(self, client: Client) -> None:
        """Try to lead and go on leading until cancelled; then releases the lease, unless a write may still be carried out."""
        try:
            while True:
                reason = self._unfit()
                if reason is not None and self._since is not None:
                    await self._give_back(client, reason)
                elif reason is None and self._clock() >= self._rests_until:
                    await self._attempt(client)
                if self._since is not None and self.remaining() <= 0:
                    self._lose("not renewed in time")
                if self._since is None and self._other.is_ending():
                    self._tell(self._ending)
                await self._sleep(self._renew if self._since is not None else self._until_next_try())
        finally:
            if self._since is not None and self._writing():
                # A replica that led at once would not see the write, and give its devices to another claim.
                self._lose("it runs out: a write may still be carried out")
            elif self._since is not None:
                self._lose("released")
                await self._release(client)

    def _until_next_try(self) -> float:
        """Seconds until a follower tries again: soon, and at once when the other's term is about to end, and when it ends."""
        left = self._other.left()
        if left > NOTICE:
            return min(_FOLLOW, self._renew, left - NOTICE)
        return min(_FOLLOW, self._renew, left + _MARGIN if left > 0 else _FOLLOW)

    async def _attempt(self, client: Client) -> None:
        if self._since is not None and self.remaining() <= 0:
            # While this machine stood still another replica may have led and given the lease back.
            self._lose("not renewed in time")
        asked = self._clock()
        try:
            takes = await self._take(client)
            self._overtaken, self._logged = 0, float("-inf")
            if takes:
                if self._since is None:
                    self._since = asked
                    self.terms += 1
                    _log.info("lease.gained", identity=self._identity)
                    metrics.LEASE_CHANGES.labels("gained").inc()
                    self._tell(self._say_gained)
                self._until = asked + self._duration
        except Overtaken as error:
            self._overtaken += 1
            # Who is overtaken by another replica finds the Lease taken at the next try.
            if self._overtaken > 1:
                self._say("lease.refused", error)
        except ApiError as error:
            self._say("lease.unreachable", error)

    def _say(self, event: str, error: ApiError) -> None:
        """Log a try that failed, once in a while: a follower tries twice a second."""
        if self._clock() - self._logged >= _LOGGED:
            self._logged = self._clock()
            _log.warning(event, error=str(error))

    async def _take(self, client: Client) -> bool:
        """Renew or win the lease; says whether this replica holds it. A former term ends where the Lease is not as that left it."""
        if self._record is not None:
            # A renewal is one request: nobody else writes a lease that we hold.
            held, self._record = self._record, None
            with suppress(Overtaken, Missing):
                self._record = await self._write(client, held, self._identity)
                return True
        try:
            found = await client.get(LEASES, self._name, namespace=self._namespace)
        except Missing:
            found = {}
        led = self._since is not None
        if led and _term_of(found) != self._ours:
            # Another replica may have led meanwhile: what it did has to be observed before this one acts.
            self._lose("the Lease was changed by others")
        if not found:
            if not led and self._other.holds_after_deletion():
                return False
            body = self._body({}, self._identity)
            self._won(await client.create(LEASES, body, namespace=self._namespace))
            return True
        if not (self._is_free(found.get("spec") or {}, led=led) or self._expired(found)):
            return False
        self._won(await self._write(client, found, self._identity))
        return True

    def _won(self, record: Object) -> None:
        self._other.forget()
        self._record, self._ours = record, _term_of(record)

    async def _write(self, client: Client, found: Object, holder: str) -> Object:
        return await client.replace(LEASES, self._name, self._body(found, holder), namespace=self._namespace)

    def _is_free(self, spec: Mapping[str, Any], *, led: bool) -> bool:
        """Say whether nobody else may write: where others than its holder have emptied it, he may until his term is over; `led`: that is us."""
        holder = spec.get("holderIdentity")
        if not holder:
            return led or spec.get("leaseDurationSeconds") == _RELEASED
        return bool(holder == self._identity)

    def _expired(self, found: Object) -> bool:
        seconds = float((found.get("spec") or {}).get("leaseDurationSeconds") or self._duration)
        return self._other.is_over(str(found["metadata"]["resourceVersion"]), seconds)

    def _body(self, found: Object, holder: str) -> Object:
        spec: dict[str, Any] = dict(found.get("spec") or {})
        stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        if spec.get("holderIdentity") != holder:
            spec["acquireTime"] = stamp
            spec["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        spec |= {
            "holderIdentity": holder,
            "renewTime": stamp,
            "leaseDurationSeconds": ceil(self._duration) if holder else _RELEASED,
        }
        metadata = {"name": self._name, "namespace": self._namespace}
        if found:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        return {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata, "spec": spec}

    def _say_gained(self) -> None:
        self.lost.clear()
        self.gained.set()

    def _say_lost(self) -> None:
        self.gained.clear()
        self.lost.set()

    def _lose(self, reason: str) -> None:
        log = _log.info if reason == "released" else _log.error
        log("lease.lost", identity=self._identity, reason=reason)
        metrics.LEASE_CHANGES.labels("lost").inc()
        self._until, self._since, self._record = 0.0, None, None
        self._tell(self._say_lost)

    async def _give_back(self, client: Client, reason: str) -> None:
        """Let another replica lead, and leave it the time to begin."""
        self._lose(reason)
        self._rests_until = self._clock() + _REST * self._duration
        # A write that began while we led may still be on its way, and the next leader must see it.
        await self._sleep(self._reserve)
        if self._unknown():
            _log.info("lease.not_released", error="a write may still be carried out")
        else:
            await self._release(client)

    async def _release(self, client: Client) -> None:
        try:
            found = await client.get(LEASES, self._name, namespace=self._namespace)
            if (found.get("spec") or {}).get("holderIdentity") == self._identity:
                await self._write(client, found, "")
        except ApiError as error:
            _log.info("lease.not_released", error=str(error))


def _term_of(record: Object) -> tuple[object, object]:
    """Return what tells the term of a Lease (empty: there is none) from others."""
    spec = record.get("spec") or {}
    return spec.get("holderIdentity"), spec.get("leaseTransitions")
