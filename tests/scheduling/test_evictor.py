"""Evictions on a real API server: asked for without effect first, guarded by PodDisruptionBudgets, for one pod of a name only."""

from dataclasses import replace
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import BUDGETS, PODS
from apportion.dra.pod import Pod
from apportion.errors import NotLeading
from apportion.scheduling.preemption.evictor import Evictor
from testbed.eventually import eventually

IMAGE = "registry.k8s.io/pause:3.10"


async def running(
    client: Client, namespace: str, *names: str, phase: str = "Running", ready: bool = True
) -> list[Pod]:
    """Make pods with a label, and let them run and be ready, as kubelet would, unless it is said otherwise.

    controller-manager deletes the pods of a node that it has missed for 40 s: those of other tests have other nodes.
    """
    made = []
    for name in names:
        body = {
            "metadata": {"name": name, "labels": {"app": "a"}},
            "spec": {"nodeName": f"nowhere-{namespace}", "containers": [{"name": "main", "image": IMAGE}]},
        }
        await client.create(PODS, body, namespace=namespace)
        condition = {"type": "Ready", "status": str(ready)}
        status = {"status": {"phase": phase, "conditions": [condition]}}
        raw = await client.patch(PODS, name, status, namespace=namespace, sub="status")
        made.append(Pod.from_json(raw))
    return made


async def budget(
    client: Client, namespace: str, least: int, allowed: int, name: str = "keep", **spec: Any
) -> None:
    """Make a budget for at least so many pods, and wait until the controller has counted that so many may go."""
    spec |= {"minAvailable": least, "selector": {"matchLabels": {"app": "a"}}}
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    await client.create(BUDGETS, body, namespace=namespace)

    async def counted() -> tuple[int, int]:
        status = (await client.get(BUDGETS, name, namespace=namespace)).get("status", {})
        return status.get("observedGeneration", 0), status.get("disruptionsAllowed", -1)

    await eventually(counted, lambda found: found == (1, allowed), within=30)


async def left(client: Client, namespace: str) -> list[str]:
    """Return the pods that do not end."""
    found = await client.list(PODS, namespace=namespace)
    return [
        each["metadata"]["name"] for each in found["items"] if "deletionTimestamp" not in each["metadata"]
    ]


async def test_asking_changes_nothing_and_evicting_ends_the_pod(client: Client, namespace: str) -> None:
    """The dry run comes first, for all."""
    evictor = Evictor(client, fence=lambda: None)
    pods = await running(client, namespace, "one", "two")
    assert await evictor.refusal(pods) is None
    assert await left(client, namespace) == ["one", "two"]
    assert await evictor.evict(pods[0]) is None
    assert await left(client, namespace) == ["two"]
    assert await evictor.evict(pods[0]) is None


async def test_a_budget_is_named_by_the_refusal(client: Client, namespace: str) -> None:
    """Evictions are refused by the server, never replaced by a deletion (NVIDIA/KAI-Scheduler 1579)."""
    evictor = Evictor(client, fence=lambda: None)
    [pod] = await running(client, namespace, "one")
    await budget(client, namespace, 1, 0)
    refused = [await evictor.refusal([pod]), await evictor.evict(pod)]
    for each in refused:
        assert each is not None
        assert each.pod == pod
        assert "disruption budget keep" in each.reason
    assert await left(client, namespace) == ["one"]


async def test_two_pods_of_a_budget_that_lets_one_go_are_refused_together(
    client: Client, namespace: str
) -> None:
    """The server would say yes to each of them, and to the second one in earnest no."""
    evictor = Evictor(client, fence=lambda: None)
    pods = await running(client, namespace, "one", "two")
    await budget(client, namespace, 1, 1)
    assert await evictor.refusal(pods[:1]) is None
    refused = await evictor.refusal(pods)
    assert refused is not None
    assert "keep allows 1 of the 2 pods" in refused.reason


@pytest.mark.parametrize(
    ("phase", "ready", "policy"),
    [("Pending", False, "IfHealthyBudget"), ("Running", False, "AlwaysAllow")],
    ids=["not-started", "not-ready"],
)
async def test_pods_that_a_budget_does_not_guard_go_together(
    client: Client, namespace: str, phase: str, policy: str, *, ready: bool
) -> None:
    """The server lets them go whatever the budget allows; they were refused for ever as soon as there were two."""
    evictor = Evictor(client, fence=lambda: None)
    pods = await running(client, namespace, "one", "two", phase=phase, ready=ready)
    await budget(client, namespace, 1, 0, unhealthyPodEvictionPolicy=policy)
    assert await evictor.refusal(pods) is None
    assert [await evictor.evict(pod) for pod in pods] == [None, None]


async def test_a_pod_goes_with_one_that_a_budget_does_not_guard(client: Client, namespace: str) -> None:
    """One of two that are ready may go, and the one that is not does not count."""
    evictor = Evictor(client, fence=lambda: None)
    pods = await running(client, namespace, "one", "two")
    [sick] = await running(client, namespace, "sick", ready=False)
    await budget(client, namespace, 1, 1)
    assert await evictor.refusal([pods[0], sick]) is None
    refused = await evictor.refusal([*pods, sick])
    assert refused is not None
    assert "keep allows 1 of the 2 pods" in refused.reason
    assert [await evictor.evict(pod) for pod in (pods[0], sick)] == [None, None]


async def test_of_a_budget_that_needs_no_pod_those_count_that_are_not_ready(
    client: Client, namespace: str
) -> None:
    """The server guards them then as it does the others."""
    evictor = Evictor(client, fence=lambda: None)
    [pod] = await running(client, namespace, "one")
    [sick] = await running(client, namespace, "sick", ready=False)
    await budget(client, namespace, 0, 1)
    assert await evictor.refusal([pod, sick]) is not None


async def test_a_pod_of_several_budgets_stays(client: Client, namespace: str) -> None:
    """The Eviction API cannot serve it."""
    evictor = Evictor(client, fence=lambda: None)
    [pod] = await running(client, namespace, "one")
    for name in ("keep", "keep-too"):
        await budget(client, namespace, 0, 1, name)
    refused = await evictor.refusal([pod])
    assert refused is not None
    assert "more than one PodDisruptionBudget" in refused.reason


async def test_a_namesake_made_meanwhile_is_spared(client: Client, namespace: str) -> None:
    """The UID says who is meant."""
    evictor = Evictor(client, fence=lambda: None)
    [pod] = await running(client, namespace, "one")
    assert await evictor.evict(replace(pod, uid="00000000-0000-0000-0000-000000000000")) is None
    assert await left(client, namespace) == ["one"]


async def test_nobody_is_evicted_without_the_lease(client: Client, namespace: str) -> None:
    """Another replica decides."""

    def fence() -> None:
        raise NotLeading("no lease")

    [pod] = await running(client, namespace, "one")
    with pytest.raises(NotLeading):
        await Evictor(client, fence=fence).evict(pod)
    assert await left(client, namespace) == ["one"]
