"""Evictor: evicts pods through the Eviction API, which guards PodDisruptionBudgets.

In: pods in the version that was decided upon. Out: evicted pods, or why one of them stays. First all are asked for without effect
(dry run), and the budgets that several of them share are counted, because the server looks at one pod at a time. Every
request checks the lease first and carries the pod's UID.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from apportion.cluster.client import Client
from apportion.cluster.kinds import BUDGETS, PODS
from apportion.dra.pod import Pod
from apportion.dra.podrelations import label_selector
from apportion.errors import ApiError, BrokenInput, Missing, Oversized, Overtaken, Unanswered

NO_RIGHT = "the operator has no right to evict, which manifests/components/preemption gives"
"""Why nobody is evicted where a policy says so and the component is missing."""
_FORBIDDEN = 403
_UNGUARDED = frozenset({"Pending", "Succeeded", "Failed"})
"""Phases of pods that no PodDisruptionBudget guards."""
_ALWAYS = "AlwaysAllow"
"""Policy of a PodDisruptionBudget that lets go every pod which is not ready."""
_PART: Final = 16
"""PodDisruptionBudgets of one answer, or fewer where these have more bytes than `_LARGEST`."""
_LARGEST: Final = 2**21
_TOO_MANY = 429
"""HTTP status of an eviction that a PodDisruptionBudget forbids now."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A pod that may not be evicted now."""

    pod: Pod
    reason: str
    """What the server says; names the PodDisruptionBudget."""
    forbidden: bool = False
    """Whether the operator may evict nobody: it lacks the right."""


class Evictor:
    """Evicts pods."""

    def __init__(self, client: Client, *, fence: Callable[[], None]) -> None:
        """`fence` raises NotLeading when a write may not begin."""
        self._client = client
        self._fence = fence

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        """Return a pod that could not be evicted now, together with the others; None if all could. Nothing is evicted.

        Raises Unreachable when the server does not say.
        """
        for pod in pods:
            refused = await self._ask(pod, dryRun="All")
            if refused is not None:
                return refused
        spaces = Counter(pod.namespace for pod in pods)
        for namespace, count in spaces.items():
            if count > 1:
                mine = [pod for pod in pods if pod.namespace == namespace]
                async for raw in self._budgets(namespace):
                    refused = await self._exceeded(raw, mine)
                    if refused is not None:
                        return refused
        return None

    async def _budgets(self, namespace: str) -> AsyncIterator[dict[str, Any]]:
        """Yield the PodDisruptionBudgets of a namespace. They are read a few at once, and others run in between: a tenant may make thousands, each of a megabyte."""
        count, token = _PART, ""
        while True:
            page = {"limit": str(count)} | ({"continue": token} if token else {})
            most = _LARGEST if count > 1 else 0
            try:
                part = await self._client.list(BUDGETS, namespace=namespace, most=most, **page)
            except Oversized:
                count //= 2
                continue
            for raw in part.get("items") or ():
                yield raw
                await asyncio.sleep(0)
            token = part["metadata"].get("continue") or ""
            if not token:
                return

    async def _exceeded(self, raw: dict[str, Any], pods: Sequence[Pod]) -> Refused | None:
        """Return one of the pods if a PodDisruptionBudget selects more of them than may go now, without those that it does not guard."""
        mine, status = _selected(raw, pods), raw.get("status") or {}
        allowed = int(status.get("disruptionsAllowed") or 0)
        if len(mine) > max(allowed, 1):
            mine = [pod for pod in mine if await self._is_guarded(pod, raw)]
        if len(mine) <= max(allowed, 1):
            return None  # the server has said yes to each of them
        name = raw["metadata"]["name"]
        return Refused(
            mine[allowed], f"PodDisruptionBudget {name} allows {allowed} of the {len(mine)} pods to go now"
        )

    async def _is_guarded(self, pod: Pod, budget: dict[str, Any]) -> bool:
        """Say whether a pod that may go takes something of what a budget allows: not one that has not started or is over, nor, as a rule, one that is not ready (pod storage, `EvictionREST.Create`)."""
        try:
            raw = await self._client.get(PODS, pod.name, namespace=pod.namespace)
        except Missing:
            return False
        status = raw.get("status") or {}
        if status.get("phase", "Pending") in _UNGUARDED or "deletionTimestamp" in raw["metadata"]:
            return False
        conditions = status.get("conditions") or []
        if any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions):
            return True
        always = (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == _ALWAYS
        return not always and not (budget.get("status") or {}).get("desiredHealthy")

    async def evict(self, pod: Pod) -> Refused | None:
        """Evict a pod; returns why it stays. One that is gone, or has another UID, counts as evicted.

        Raises NotLeading before anything is asked, Unreachable when nothing was done, Unanswered when nobody knows.
        """
        return await self._ask(pod)

    async def _is_there(self, pod: Pod) -> bool:
        """Say whether a pod is there, and not being deleted."""
        try:
            raw = await self._client.get(PODS, pod.name, namespace=pod.namespace)
        except Missing:
            return False
        metadata = raw["metadata"]
        return metadata["uid"] == pod.uid and "deletionTimestamp" not in metadata

    async def _ask(self, pod: Pod, **params: str) -> Refused | None:
        self._fence()
        body: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._client.create(
                PODS, body, namespace=pod.namespace, under=f"{pod.name}/eviction", **params
            )
        except Missing:
            return None
        except Overtaken as error:
            # The pod is another one by now, or a webhook has refused with 409.
            return Refused(pod, str(error)) if await self._is_there(pod) else None
        except ApiError as error:
            # Of a pod in several budgets the server says 500, before it does anything.
            several = isinstance(error, Unanswered) and "more than one PodDisruptionBudget" in str(error)
            overloaded = error.status == _TOO_MANY and "disruption budget" not in str(error)
            if several or (400 <= error.status < 500 and not overloaded):
                forbidden = error.status == _FORBIDDEN
                return Refused(pod, f"{NO_RIGHT}: {error}" if forbidden else str(error), forbidden)
            raise
        return None


def _selected(raw: dict[str, Any], pods: Sequence[Pod]) -> list[Pod]:
    """Return those of the pods that a PodDisruptionBudget selects."""
    try:
        found = label_selector(raw.get("spec") or {}, "selector", at="spec")
    except BrokenInput:
        found = ()
    return [
        pod
        for pod in pods
        if found is not None and all(each.matches(pod.labels.get(each.key)) for each in found)
    ]
