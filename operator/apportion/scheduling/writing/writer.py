"""Writer: the writes to claims, their templates and pods, fenced by the lease.

In: claims and pods in the version that was decided upon. Out: written allocations, cleared allocations, removed gates, pods that autoscalers see.
Namespaces take turns where more writes wait than may be under way at once.
Every request first checks that the lease lasts longer than the request may take, and carries the resourceVersion (or a
test of the uid), so that the server refuses a stale decision.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from apportion.api.contract import ALLOCATION_FINALIZER, CONSUMERS_CHECKED, EXTENDED_RESOURCE, GATE
from apportion.cluster.client import JSON_PATCH, Client
from apportion.cluster.kinds import CLAIM_TEMPLATES, CLAIMS, PODS
from apportion.cluster.writeturns import WriteTurns
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import HCCL_RANK_TABLE, UNSCHEDULABLE, Pod
from apportion.errors import ApiError, BrokenInput, Missing, NotLeading, Overtaken, Unanswered
from apportion.scheduling.demands.extendedresources import Template
from apportion.scheduling.demands.waiting import finalizer_of

_SCHEDULED = "PodScheduled"
_GATED = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes when such a pod is made (pod strategy, applySchedulingGatedCondition)."""

_TRIED = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8)
"""Seconds after each try to give a reservation back."""
_SHOWN_AT_ONCE = 2
"""Conditions for autoscalers that are written at once. No pod starts by one, so that thousands of them may not keep a busy API server from the writes by which pods start."""


class Writer:
    """All of the operator's writes to claims, their templates and pods."""

    def __init__(
        self,
        client: Client,
        *,
        fence: Callable[[], None],
        now: Callable[[], datetime],
        concurrency: int = 32,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`fence` raises NotLeading when a write may not begin; `sleep` ends early where none may any more.

        A quarter of `concurrency` is for one namespace at most, all but a quarter where no other has written lately.
        """
        self._client = client
        self._fence = fence
        self._now = now
        self._sleep = sleep
        most = max(1, concurrency // 4)
        self._turns = WriteTurns(concurrency, most, alone=max(1, concurrency - most))
        self._shows = WriteTurns(_SHOWN_AT_ONCE, 1, alone=_SHOWN_AT_ONCE)

    async def protect(self, claim: Claim) -> str:
        """Write the finalizer, unless it is there; returns the resourceVersion of the claim with it.

        controller-manager takes the protection finalizer away at every deallocation, so it is checked before each
        allocation. Raises Overtaken when the claim changed since it was decided upon.
        """
        finalizer = finalizer_of(claim)
        if finalizer in claim.finalizers:
            return claim.version
        async with self._turns.of(claim.namespace):
            return await self._finalizers(claim, claim.version, [*claim.finalizers, finalizer])

    async def allocate(
        self, claim: Claim, allocation: Allocation, version: str, user: Pod | None = None
    ) -> None:
        """Write the allocation to a claim that has its finalizer in this resourceVersion, reserved for `user` if there is one.

        Raises Overtaken when the claim changed since, Missing when it is gone, Unanswered when nobody knows.
        """
        async with self._turns.of(claim.namespace):
            stamped = allocation.to_json() | {"allocationTimestamp": self._stamp()}
            reserved = {"reservedFor": [_consumer(user)]} if user is not None else {}
            await self._status(claim, version, {"allocation": stamped, **reserved})

    async def withdraw(self, claim: Claim, version: str) -> None:
        """Take the finalizer off again, if the claim still has this resourceVersion.

        Afterwards it has another one, so that the server refuses an allocation that depends on this one (ADR 13). Raises
        Overtaken when it had another one already, Missing when the claim is gone: then the same holds.
        """
        async with self._turns.of(claim.namespace):
            kept = [each for each in claim.finalizers if each != finalizer_of(claim)]
            await self._finalizers(claim, version, kept)

    async def version(self, claim: Claim) -> str:
        """Return the resourceVersion that the claim has now; raises Missing when it is gone."""
        metadata = (await self._client.get(CLAIMS, claim.name, namespace=claim.namespace))["metadata"]
        if metadata["uid"] != claim.uid:
            raise Missing(f"claim {claim.key}: another one has its name")
        return str(metadata["resourceVersion"])

    async def clear(self, claim: Claim, user: Pod | None = None) -> bool:
        """Clear an allocation, unless it was reserved meanwhile; says whether it is gone.

        Reads the claim again: an allocation other than the given one is never cleared. `user` is the live pod that the claim was made
        for. Of a claim that is reserved for it alone nothing is taken while that is bound, by the API server and not by our watch. Else the
        claim first loses that reservation: from then on no kubelet prepares the claim unless
        somebody reserves it, and that refuses the clearing. Then the pod is read once more: it is never cleared once that is bound; and
        where the pod had no gate any more, it loses no more than the reservation, because kube-scheduler may not know that yet.
        A pod that is bound to another node than that of the devices cannot use them. A claim in deletion, which nobody can reserve once more,
        loses all at once. Where it does not become known whether the pod was bound meanwhile, the reservation is given back, too.
        """
        async with self._turns.of(claim.namespace):
            self._fence()
            try:
                raw = await self._client.get(CLAIMS, claim.name, namespace=claim.namespace)
            except Missing:
                return True
            now = Claim.from_json(raw)
            if now.uid != claim.uid or now.allocation is None:
                return True
            reserved = [each.uid for each in now.reserved_for]
            if now.allocation != claim.allocation or reserved not in ([], [user.uid] if user else []):
                return False
            with suppress(Missing):
                version = now.version
                node = user.node if user is not None else None
                away = node is not None and now.allocation.node not in (None, node)
                pod = await self._live(user) if user is not None and reserved and not away else None
                if pod is not None and pod.node is not None:
                    return False
                if away or (reserved and now.deleting):
                    await self._status(now, version, {"allocation": None, "reservedFor": None})
                    return True
                try:
                    if reserved:
                        version = await self._status(now, version, {"reservedFor": None})
                    if user is not None and await self._may_start(user, now, reserved=bool(reserved)):
                        return False
                    await self._status(now, version, {"allocation": None})
                except (ApiError, BrokenInput, NotLeading) as error:
                    if user is not None and reserved:
                        await self._reserve(now, user, unanswered=isinstance(error, Unanswered))
                    raise
            return True

    async def _may_start(self, user: Pod, claim: Claim, *, reserved: bool) -> bool:
        """Say whether a pod is bound; where a claim was reserved for it a moment ago also whether it may be bound soon, or was.

        A bound pod gets its reservation back at once: kubelet starts it no sooner, and controller-manager may be away.
        """
        pod = await self._live(user)
        if pod is None:
            return reserved
        if pod.node is not None:
            await self._reserve(claim, pod)
        return pod.node is not None or (reserved and not pod.gates)

    async def _live(self, user: Pod) -> Pod | None:
        """Return a pod as it is now; None: it is gone."""
        try:
            pod = Pod.from_json(await self._client.get(PODS, user.name, namespace=user.namespace))
        except Missing:
            return None
        return pod if pod.uid == user.uid else None

    async def _reserve(self, claim: Claim, user: Pod, *, unanswered: bool = False) -> None:
        """Reserve a claim for its pod once more if nobody has it now, and it still has these devices.

        `unanswered`: the reservation may still be taken away by a write that depends on this version, which the claim then moves on from.
        Tried for half a minute: whatever keeps an answer or the lease away is over by then, or another replica leads.
        """
        for pause in _TRIED:
            try:
                now = Claim.from_json(await self._client.get(CLAIMS, claim.name, namespace=claim.namespace))
                if now.uid == claim.uid and now.allocation == claim.allocation and not now.reserved_for:
                    await self._status(now, now.version, {"reservedFor": [_consumer(user)]})
                elif unanswered and now.version == claim.version:
                    await self._annotate(claim, resourceVersion=now.version)
            except (Missing, BrokenInput):
                return
            except (ApiError, NotLeading):
                await self._sleep(pause)
            else:
                return

    async def recheck(self, claim: Claim) -> None:
        """Change an annotation of a claim, so that controller-manager looks at its consumers once more; raises Overtaken when it is another claim."""
        async with self._turns.of(claim.namespace):
            with suppress(Missing):
                await self._annotate(claim)

    async def _annotate(self, claim: Claim, **depends: str) -> None:
        metadata = {"uid": claim.uid, "annotations": {CONSUMERS_CHECKED: self._stamp()}, **depends}
        await self._changed(claim, {"metadata": metadata})

    async def release(self, claim: Claim) -> None:
        """Remove our own finalizer from a claim that is being deleted."""
        async with self._turns.of(claim.namespace):
            kept = [finalizer for finalizer in claim.finalizers if finalizer != ALLOCATION_FINALIZER]
            with suppress(Missing):
                await self._finalizers(claim, claim.version, kept)

    async def ungate(self, pod: Pod, rank_table: str = "", node: str = "") -> None:
        """Remove our gate, and write the rank table that the pod asked for, if there is one; raises ApiError (422) when the pod is another one or its gates changed.

        Before, `node` is nominated, if one is given: kube-scheduler then looks at that node first, and at no other where the pod fits there
        (KEP-5278). Pods start without it, too, so that nothing which keeps it from being written keeps the gate.
        """
        changes = [{"op": "remove", "path": _gate_of(pod)}]
        if rank_table:
            path = f"/metadata/annotations/{HCCL_RANK_TABLE.replace('/', '~1')}"
            changes.append({"op": "add", "path": path, "value": rank_table})
        async with self._turns.of(pod.namespace):
            if node:
                nominated = {"op": "add", "path": "/status/nominatedNodeName", "value": node}
                with suppress(ApiError):
                    await self._gated(pod, [nominated], sub="status")
            await self._gated(pod, changes)

    async def has_gate(self, pod: Pod) -> bool:
        """Say whether a pod still has our gate, by the API server and not by our watch; where it cannot be read it has."""
        with suppress(BrokenInput):
            found = await self._live(pod)
            return found is not None and GATE in found.gates
        return True

    async def show(self, pod: Pod, why: str) -> None:
        """Write condition PodScheduled of a pod behind our gate: Unschedulable with `why`; without it what the API server writes of a gate.

        kube-scheduler writes nothing about a pod behind a gate. Raises Overtaken when the pod is another one, or its gates or conditions
        changed.
        """
        if pod.scheduled_at is None:
            return
        at = f"/status/conditions/{pod.scheduled_at}"
        condition = {
            "type": _SCHEDULED,
            "status": "False",
            "reason": UNSCHEDULABLE if why else "SchedulingGated",
            "message": why or _GATED,
            "lastTransitionTime": self._stamp(),
        }
        changes = [
            {"op": "test", "path": f"{at}/type", "value": _SCHEDULED},
            {"op": "replace", "path": at, "value": condition},
        ]
        async with self._shows.of(pod.namespace):
            await self._gated(pod, changes, sub="status")

    async def _gated(self, pod: Pod, changes: Sequence[object], *, sub: str = "") -> None:
        """Change a pod as long as it is this one and has our gate where it was."""
        self._fence()
        body = [
            {"op": "test", "path": "/metadata/uid", "value": pod.uid},
            {"op": "test", "path": f"{_gate_of(pod)}/name", "value": GATE},
            *changes,
        ]
        with suppress(Missing):
            await self._client.patch(PODS, pod.name, body, namespace=pod.namespace, sub=sub, how=JSON_PATCH)

    async def make(self, template: Template) -> None:
        """Make a ResourceClaimTemplate, unless there is one of its name."""
        async with self._turns.of(template.namespace):
            self._fence()
            wanted = {"deviceClassName": template.device_class, "count": template.count}
            body = {
                "apiVersion": CLAIM_TEMPLATES.api_version,
                "kind": CLAIM_TEMPLATES.name,
                "metadata": {"name": template.name, "labels": {EXTENDED_RESOURCE: "true"}},
                "spec": {"spec": {"devices": {"requests": [{"name": "devices", "exactly": wanted}]}}},
            }
            with suppress(Overtaken):
                await self._client.create(CLAIM_TEMPLATES, body, namespace=template.namespace)

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _finalizers(self, claim: Claim, version: str, finalizers: list[str]) -> str:
        metadata = {"resourceVersion": version, "uid": claim.uid, "finalizers": finalizers}
        return await self._changed(claim, {"metadata": metadata})

    async def _status(self, claim: Claim, version: str, change: dict[str, Any]) -> str:
        # The uid in the body turns a write to a recreated claim of the same name into a conflict.
        body = {"metadata": {"resourceVersion": version, "uid": claim.uid}, "status": change}
        return await self._changed(claim, body, sub="status")

    async def _changed(self, claim: Claim, body: dict[str, Any], *, sub: str = "") -> str:
        """Change a claim; returns its new resourceVersion."""
        self._fence()
        written = await self._client.patch(CLAIMS, claim.name, body, namespace=claim.namespace, sub=sub)
        return str(written["metadata"]["resourceVersion"])


def _gate_of(pod: Pod) -> str:
    """Return the path of our gate."""
    return f"/spec/schedulingGates/{pod.gates.index(GATE)}"


def _consumer(pod: Pod) -> dict[str, str]:
    return {"resource": "pods", "name": pod.name, "uid": pod.uid}
