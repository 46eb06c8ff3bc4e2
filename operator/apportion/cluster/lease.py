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
from datetime import UTC, datetime
from math import ceil
from typing import Any

import structlog

from apportion import metrics
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import LEASES
from apportion.errors import ApiError, Missing, NotLeading, Overtaken

_log = structlog.get_logger()
_FOLLOW = 0.5
"""Seconds between two tries of a follower, at most."""
_MARGIN = 0.05
"""Seconds after the end of another's term at which a follower tries."""
_NOTICE = 0.8
"""Seconds before the end of another's term at which `ending` is called: what it asks the server for takes one to two."""
_RELEASED = 1
"""Seconds that a lease lasts whose holder has released it, as client-go writes them; one that was emptied by others keeps its term."""
_REST = 2.0
"""Terms for which a replica that gave the lease back does not try again."""
_LOGGED = 60.0
"""Seconds between two log lines about tries that failed."""

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
        """The Lease as we last wrote it, while we lead."""
        self._rests_until = float("-inf")
        self._overtaken = 0
        """Tries in a row at which another one was first, or a webhook refused with the status of that (409)."""
        self._logged = float("-inf")
        """When a try was last logged that failed, and none has succeeded since."""
        self._observed: tuple[str, float] | None = None
        """Version of another's record, empty if it was deleted, and when it was first seen."""
        self._term = 0.0
        """Seconds that the observed record lasts."""
        self._noticed: tuple[str, float] | None = None
        """The observed record whose end was told."""
        self.gained = asyncio.Event()
        """Set while this replica leads."""
        self.lost = asyncio.Event()
        """Set while it does not."""
        self.terms = 0
        """How often `gained` was set."""
        self.lost.set()

    def remaining(self) -> float:
        """Seconds of leadership left; 0 for a follower."""
        return max(0.0, self._until - self._clock())

    def held(self) -> float:
        """Seconds since this replica began to lead; 0 for a follower."""
        since = self._since
        return 0.0 if since is None else self._clock() - since

    def fence(self) -> None:
        """Raise NotLeading unless a write that starts now ends within our term."""
        if self.remaining() < self._reserve:
            raise NotLeading(f"lease {self._namespace}/{self._name}: {self.remaining():.1f} s left")

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
                if self._since is None:
                    self._notice()
                await self._sleep(self._renew if self._since is not None else self._until_next_try())
        finally:
            if self._since is not None and self._writing():
                # A replica that led at once would not see the write, and give its devices to another claim.
                self._lose("it runs out: a write may still be carried out")
            elif self._since is not None:
                self._lose("released")
                await self._release(client)

    def _left(self) -> float:
        """Seconds until another's term ends; none where no record of another is known."""
        return self._observed[1] + self._term - self._clock() if self._observed else 0.0

    def _until_next_try(self) -> float:
        """Seconds until a follower tries again: soon, and at once when the other's term is about to end, and when it ends."""
        left = self._left()
        if left > _NOTICE:
            return min(_FOLLOW, self._renew, left - _NOTICE)
        return min(_FOLLOW, self._renew, left + _MARGIN if left > 0 else _FOLLOW)

    def _notice(self) -> None:
        """Say once of a record that its term is about to end."""
        if self._observed is not None and self._observed != self._noticed and self._left() <= _NOTICE:
            self._noticed = self._observed
            self._tell(self._ending)

    async def _attempt(self, client: Client) -> None:
        asked = self._clock()
        try:
            takes = await self._take(client)
            self._overtaken, self._logged = 0, float("-inf")
            if takes:
                self._until = asked + self._duration
                if self._since is None:
                    self._since = asked
                    _log.info("lease.gained", identity=self._identity)
                    metrics.LEASE_CHANGES.labels("gained").inc()
                    self._tell(self._say_gained)
            elif self._since is not None:
                self._lose("taken by another replica")
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
        if self._record is not None:
            # A renewal is one request: nobody else writes a lease that we hold.
            held, self._record = self._record, None
            with suppress(Overtaken, Missing):
                self._record = await self._write(client, held, self._identity)
                return True
        try:
            found = await client.get(LEASES, self._name, namespace=self._namespace)
        except Missing:
            # Somebody has deleted it: its holder may write until the term is over, and learns of it when he renews.
            if self._since is None and self._observed is not None and not self._is_over("", self._term):
                return False
            body = self._body({}, self._identity)
            self._record = await client.create(LEASES, body, namespace=self._namespace)
            self._observed = None
            return True
        if not (self._is_free(found.get("spec") or {}) or self._expired(found)):
            return False
        self._record = await self._write(client, found, self._identity)
        self._observed = None
        return True

    async def _write(self, client: Client, found: Object, holder: str) -> Object:
        return await client.replace(LEASES, self._name, self._body(found, holder), namespace=self._namespace)

    def _is_free(self, spec: Mapping[str, Any]) -> bool:
        """Say whether nobody else may write: where others than its holder have emptied it, he may until his term is over."""
        holder = spec.get("holderIdentity")
        if not holder:
            return self._since is not None or spec.get("leaseDurationSeconds") == _RELEASED
        return bool(holder == self._identity)

    def _expired(self, found: Object) -> bool:
        # Clocks of replicas differ: another's term ends when its record has not changed for that long by our own clock.
        self._term = float((found.get("spec") or {}).get("leaseDurationSeconds") or self._duration)
        return self._is_over(str(found["metadata"]["resourceVersion"]), self._term)

    def _is_over(self, version: str, term: float) -> bool:
        """Say whether another's record has had this version (empty: it is deleted) for longer than its term."""
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, self._clock())
            return False
        return self._clock() - self._observed[1] > term

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
        self.terms += 1
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
