"""Policies that say that pods are evicted, and an operator that may not: what helps is named, also where pods of others are not."""

from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption import events
from apportion.scheduling.preemption.evictor import NO_RIGHT, Evictor, Refused
from tests.clients import silent
from tests.cluster.apiserver import ApiServer, failed
from tests.observedcluster import ObservedCluster

__all__ = ["silent"]


async def test_the_refusal_names_the_component() -> None:
    """With what the server says; what a budget forbids is something else."""
    pod = Pod("other", "victim", uid="u")
    async with ApiServer().serving() as server, server.client() as client:
        evictor = Evictor(client, fence=lambda: None)
        server.fault = lambda _: failed(403, 'cannot create resource "pods/eviction"')
        refused = await evictor.refusal([pod])
        assert refused is not None
        assert refused.forbidden
        assert refused.reason.startswith(f"{NO_RIGHT}: ")
        assert "pods/eviction" in refused.reason
        server.fault = lambda _: failed(
            429, "Cannot evict pod as it would violate the pod's disruption budget."
        )
        refused = await evictor.refusal([pod])
        assert refused is not None
        assert not refused.forbidden


async def test_the_event_names_it_where_the_pod_may_not_be_named(silent: object) -> None:
    """The pod is of another namespace, the right is nobody's secret."""
    world = ObservedCluster()
    demand = WaitingDemand((world.claim_value(world.claim("c")),))
    for forbidden, why in (
        (True, NO_RIGHT),
        (False, "a PodDisruptionBudget or the API server forbids it now"),
    ):
        refused = Refused(Pod("other", "victim", uid="u"), "budget keep", forbidden)
        events.blocked(world.recorder(silent), demand, refused)
        said = f"a pod of priority 0 in another namespace is not evicted: {why}"
        assert world.messages[-1] == ("c", "PreemptionBlocked", said)
