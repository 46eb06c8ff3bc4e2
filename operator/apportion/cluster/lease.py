"""Lease: one replica acts, the others only observe.

In: a client, a name, an identity. Out: `remaining()` seconds for which this replica may still write, by its own
monotonic clock, counted from before the request that won or renewed the lease was sent. A holder that cannot renew
stops writing before anybody else may begin (coordination.k8s.io/v1 Lease, the rules of client-go leaderelection).
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import structlog

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import LEASES
from apportion.errors import ApiError, Missing, NotLeading, Overtaken

_log = structlog.get_logger()


class Lease:
    """The right to act, held by at most one replica at a time."""

    def __init__(
        self,
        client: Client,
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
    ) -> None:
        """Prepare; nothing is asked for before `run`.

        `duration`: seconds that a won lease lasts; `renew`: seconds between renewals; `reserve`: seconds that must be
        left for a write to begin, at least the time-out of one request.
        """
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._clock = clock
        self._now = now
        self._duration = duration
        self._renew = renew
        self._reserve = reserve
        self._sleep = sleep
        self._until = 0.0
        self._observed: tuple[str, float] | None = None
        self.gained = asyncio.Event()
        """Set while this replica leads."""
        self.lost = asyncio.Event()
        """Set while it does not."""
        self.lost.set()

    def remaining(self) -> float:
        """Seconds of leadership left; 0 for a follower."""
        return max(0.0, self._until - self._clock())

    def fence(self) -> None:
        """Raise NotLeading unless a write that starts now ends within our term."""
        if self.remaining() < self._reserve:
            raise NotLeading(f"lease {self._namespace}/{self._name}: {self.remaining():.1f} s left")

    async def run(self) -> None:
        """Try to lead and go on leading until cancelled; then releases the lease."""
        try:
            while True:
                await self._attempt()
                if self.gained.is_set() and self.remaining() <= 0:
                    self._lose("not renewed in time")
                await self._sleep(self._renew if self.gained.is_set() else min(2.0, self._renew))
        finally:
            await self._release()

    async def _attempt(self) -> None:
        asked = self._clock()
        try:
            if await self._take():
                self._until = asked + self._duration
                if not self.gained.is_set():
                    _log.info("lease.gained", identity=self._identity)
                    self.lost.clear()
                    self.gained.set()
            elif self.gained.is_set():
                self._lose("taken by another replica")
        except Overtaken:
            return
        except ApiError as error:
            _log.warning("lease.unreachable", error=str(error))

    async def _take(self) -> bool:
        try:
            found = await self._client.get(LEASES, self._name, namespace=self._namespace)
        except Missing:
            await self._client.create(LEASES, self._body({}, self._identity), namespace=self._namespace)
            return True
        spec: dict[str, Any] = found.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self._identity) and not self._expired(found):
            return False
        await self._client.replace(
            LEASES, self._name, self._body(found, self._identity), namespace=self._namespace
        )
        return True

    def _expired(self, found: Object) -> bool:
        # Clocks of replicas differ: another's term ends when its record has not changed for that long by our own clock.
        version = str(found["metadata"]["resourceVersion"])
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, self._clock())
            return False
        term = float((found.get("spec") or {}).get("leaseDurationSeconds") or self._duration)
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
            "leaseDurationSeconds": int(self._duration) if holder else 1,
        }
        metadata = {"name": self._name, "namespace": self._namespace}
        if found:
            metadata["resourceVersion"] = found["metadata"]["resourceVersion"]
        return {"apiVersion": LEASES.api_version, "kind": LEASES.name, "metadata": metadata, "spec": spec}

    def _lose(self, reason: str) -> None:
        _log.error("lease.lost", identity=self._identity, reason=reason)
        self._until = 0.0
        self.gained.clear()
        self.lost.set()

    async def _release(self) -> None:
        if not self.gained.is_set():
            return
        self._lose("released")
        try:
            found = await self._client.get(LEASES, self._name, namespace=self._namespace)
            if (found.get("spec") or {}).get("holderIdentity") == self._identity:
                await self._client.replace(
                    LEASES, self._name, self._body(found, ""), namespace=self._namespace
                )
        except ApiError as error:
            _log.info("lease.not_released", error=str(error))
