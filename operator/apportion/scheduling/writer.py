"""Writer: the writes to claims and pods, fenced by the lease.

In: claims and pods in the version that was decided upon. Out: written allocations, cleared allocations, removed gates.
Every request first checks that the lease lasts longer than the request may take, and carries the resourceVersion (or a
test of the uid), so that the server refuses a stale decision.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.client import JSON_PATCH, Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation
from apportion.dra.claim import PROTECTION_FINALIZER, Claim
from apportion.dra.pod import Pod
from apportion.errors import Missing
from apportion.scheduling.waiting import immediate


class Writer:
    """All of the operator's writes to claims and pods."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Callable[[], None],
        now: Callable[[], datetime],
        concurrency: int = 32,
    ) -> None:
        """`fence` raises NotLeading when a write may not begin."""
        self._client = client
        self._fence = fence
        self._now = now
        self._slots = asyncio.Semaphore(concurrency)

    async def protect(self, claim: Claim) -> str:
        """Write the finalizer, unless it is there; returns the resourceVersion of the claim with it.

        controller-manager takes the protection finalizer away at every deallocation, so it is checked before each
        allocation. Raises Overtaken when the claim changed since it was decided upon.
        """
        finalizer = _finalizer(claim)
        if finalizer in claim.finalizers:
            return claim.version
        async with self._slots:
            return await self._finalizers(claim, claim.version, [*claim.finalizers, finalizer])

    async def allocate(self, claim: Claim, allocation: Allocation, version: str) -> None:
        """Write the allocation to a claim that has its finalizer in this resourceVersion.

        Raises Overtaken when the claim changed since, Missing when it is gone, Unanswered when nobody knows.
        """
        async with self._slots:
            stamp = self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            await self._status(
                claim, version, {"allocation": allocation.to_json() | {"allocationTimestamp": stamp}}
            )

    async def withdraw(self, claim: Claim, version: str) -> None:
        """Take the finalizer off again, if the claim still has this resourceVersion.

        Afterwards it has another one, so that the server refuses an allocation that depends on this one (ADR 13). Raises
        Overtaken when it had another one already, Missing when the claim is gone: then the same holds.
        """
        async with self._slots:
            kept = [each for each in claim.finalizers if each != _finalizer(claim)]
            await self._finalizers(claim, version, kept)

    async def clear(self, claim: Claim) -> bool:
        """Clear an allocation, unless it was reserved meanwhile; says whether it is gone.

        Reads the claim again: an allocation other than the given one is never cleared.
        """
        async with self._slots:
            self._fence()
            try:
                raw = await self._client.get(CLAIMS, claim.name, namespace=claim.namespace)
            except Missing:
                return True
            now = Claim.from_json(raw)
            if now.uid != claim.uid or now.allocation is None:
                return True
            if now.reserved_for or now.allocation != claim.allocation:
                return False
            with suppress(Missing):
                await self._status(now, now.version, {"allocation": None})
            return True

    async def release(self, claim: Claim) -> None:
        """Remove our own finalizer from a claim that is being deleted."""
        async with self._slots:
            kept = [finalizer for finalizer in claim.finalizers if finalizer != ALLOCATION_FINALIZER]
            with suppress(Missing):
                await self._finalizers(claim, claim.version, kept)

    async def ungate(self, pod: Pod) -> None:
        """Remove our gate and nothing else; raises Overtaken when the pod is another one or its gates changed."""
        async with self._slots:
            self._fence()
            at = f"/spec/schedulingGates/{pod.gates.index(GATE)}"
            body = [
                {"op": "test", "path": "/metadata/uid", "value": pod.uid},
                {"op": "test", "path": f"{at}/name", "value": GATE},
                {"op": "remove", "path": at},
            ]
            with suppress(Missing):
                await self._client.patch(PODS, pod.name, body, namespace=pod.namespace, how=JSON_PATCH)

    async def _finalizers(self, claim: Claim, version: str, finalizers: list[str]) -> str:
        self._fence()
        metadata = {"resourceVersion": version, "uid": claim.uid, "finalizers": finalizers}
        written = await self._client.patch(
            CLAIMS, claim.name, {"metadata": metadata}, namespace=claim.namespace
        )
        return str(written["metadata"]["resourceVersion"])

    async def _status(self, claim: Claim, version: str, change: dict[str, Any]) -> None:
        self._fence()
        # The uid in the body turns a write to a recreated claim of the same name into a conflict.
        body = {"metadata": {"resourceVersion": version, "uid": claim.uid}, "status": change}
        await self._client.patch(CLAIMS, claim.name, body, namespace=claim.namespace, sub="status")


def _finalizer(claim: Claim) -> str:
    """Return the finalizer that keeps the claim until its devices are free."""
    return ALLOCATION_FINALIZER if immediate(claim) else PROTECTION_FINALIZER
