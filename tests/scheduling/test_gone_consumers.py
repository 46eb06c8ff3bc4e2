"""Claims that stay reserved for pods that are gone: controller-manager is made to look at them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import PODS
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.writing.writer import Writer
from testbed import components
from testbed.binaries import Binaries
from testbed.components import APISERVER, CONTROLLER_MANAGER, ETCD
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.supervised import Supervised
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling import written
from tests.scheduling.givenback import tried
from tests.scheduling.queued import fleet
from tests.scheduling.reservedahead import consumer

_EVERY_POD = r"^/api/v1/pods\?"


@asynccontextmanager
async def _controller_manager(
    cluster: ControlPlane, binaries: Binaries, proxy: FaultyProxy
) -> AsyncIterator[None]:
    """Run controller-manager behind a proxy, which reads JSON."""
    access = proxy.kubeconfig(cluster.folder / "proxied.kubeconfig")
    command = [
        binaries[CONTROLLER_MANAGER],
        *components.commands(cluster.layout, client_qps=None)[CONTROLLER_MANAGER],
        f"--kubeconfig={access}",
        "--kube-api-content-type=application/json",
    ]
    program = Supervised(CONTROLLER_MANAGER, command, cluster.log_path(CONTROLLER_MANAGER))
    program.start()
    try:
        yield
    finally:
        await program.stop()


async def _pod(client: Client, namespace: str, name: str) -> Pod:
    """Make a pod, which names claim `c` if it is called `user`."""
    claims = [{"name": "device", "resourceClaimName": "c"}] if name == "user" else []
    spec = {
        "resourceClaims": claims,
        "containers": [{"name": "c", "image": "none"}],
        "terminationGracePeriodSeconds": 0,
    }
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    return Pod.from_json(await client.create(PODS, body, namespace=namespace))


async def _pods_are_watched(cluster: ControlPlane, namespace: str) -> None:
    """Wait until controller-manager has listed the pods, and hears of others: sooner it makes none for a ReplicaSet."""
    labels = {"app": "first"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "none"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    body = {"metadata": {"name": "first"}, "spec": spec}
    await cluster.api.create(f"/apis/apps/v1/namespaces/{namespace}/replicasets", body)
    path = PODS.path(namespace=namespace)
    await eventually(lambda: cluster.api.get(path), lambda found: found["items"])


async def test_controller_manager_hears_of_a_pod_that_it_never_saw(binaries: Binaries) -> None:
    """The pod came and went while the watch of pods was broken: its claim keeps its devices until it changes."""
    async with (
        ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as cluster,
        FaultyProxy(cluster.kubeconfig, [Rule(Fault.CUT, "GET", _EVERY_POD)]) as proxy,
        _controller_manager(cluster, binaries, proxy),
        await connect(cluster.kubeconfig, manager="apportion-operator") as client,
    ):
        writer = Writer(client, fence=lambda: None, now=lambda: datetime.now(UTC))
        namespace = await cluster.make_namespace()
        await cluster.service_account(namespace, "default")
        await _pods_are_watched(cluster, namespace)
        claim = await written.claim(client, namespace)
        proxy.rules = [Rule(Fault.DROP_REQUEST, "GET", _EVERY_POD)]
        await _pod(client, namespace, "last-that-is-seen")
        await eventually(lambda: _count(proxy, Fault.DROP_REQUEST))

        pod = await _pod(client, namespace, "user")
        result = DeviceResult("r", DeviceId("d.example.com", "n1", "dev"))
        await writer.allocate(claim, Allocation((result,)), await writer.protect(claim), pod)
        # It asks the API server about the pod then, which is there.
        asked = f"GET /api/v1/namespaces/{namespace}/pods/user"
        await eventually(lambda: _answered(proxy, asked))
        await client.delete(PODS, "user", namespace=namespace, uid=pod.uid)
        # After the restart of an API server a watch may not go on from where it was: the client lists again, and the pod is not there.
        proxy.rules = [Rule(Fault.EXPIRE, "GET", _EVERY_POD, times=1)]
        before = len(proxy.requests)
        await eventually(lambda: _has_listed(proxy, before))
        await asyncio.sleep(1)
        assert (await written.read(client, namespace)).reserved_for != ()

        await writer.recheck(claim)
        found = await eventually(
            lambda: written.read(client, namespace), lambda found: found.reserved_for == ()
        )
        assert found.allocation is None


async def _count(proxy: FaultyProxy, fault: Fault) -> int:
    return proxy.faults[fault]


async def _answered(proxy: FaultyProxy, what: str) -> bool:
    return what in proxy.answered


async def _has_listed(proxy: FaultyProxy, since: int) -> bool:
    return any(each.startswith("GET /api/v1/pods?") for each in proxy.requests[since:])


async def checked(cycle: Cycle) -> list[str]:
    """Make a pass; return the names of the claims that it tried to change for controller-manager."""
    return await tried(cycle, "claim.not_rechecked")


def _reserved(world: ObservedCluster, by: str = "apportion-operator") -> Json:
    """A claim that a pod uses on a node."""
    pod = world.pod("user", "used", spec={"nodeName": "n1"})
    world.allocate(world.claim("used"), "n1", "gpu-0", by=by, reservedFor=[consumer(pod)])
    return pod


@pytest.fixture
def world() -> ObservedCluster:
    """Give one node with a device."""
    return fleet({"n1": ("h100", 1)})


async def test_a_claim_is_checked_a_minute_after_its_pod_has_gone(
    world: ObservedCluster, unanswered: Client
) -> None:
    """Again after two more minutes, and four: somebody may have stopped controller-manager for long."""
    pod = _reserved(world)
    cycle = world.cycle(unanswered)
    world.clock.now += 3600
    assert await checked(cycle) == []
    world.gone(PODS, pod)
    assert await checked(cycle) == []
    for seconds in (60, 60, 120, 240):
        world.clock.now += seconds - 1
        assert await checked(cycle) == []
        world.clock.now += 1
        assert await checked(cycle) == ["used"]


async def test_a_claim_is_not_checked_once_its_consumers_are_others(
    world: ObservedCluster, unanswered: Client
) -> None:
    """Controller-manager has looked, or the pod's watch was late; what is no pod is somebody else's."""
    pod = _reserved(world)
    cycle = world.cycle(unanswered)
    world.gone(PODS, pod)
    await checked(cycle)
    world.clock.now += 59
    world.see(PODS, pod, "ADDED")
    await checked(cycle)
    world.clock.now += 59
    assert await checked(cycle) == []
    thing = {"apiGroup": "example.com", "resource": "things", "name": "other", "uid": "other"}
    world.allocate(world.claim("used"), "n1", "gpu-0", reservedFor=[thing])
    world.clock.now += 600
    assert await checked(cycle) == []


async def test_a_claim_that_another_has_allocated_is_not_ours_to_change(
    world: ObservedCluster, unanswered: Client
) -> None:
    """Also where its devices are."""
    pod = _reserved(world, by="kube-scheduler")
    cycle = world.cycle(unanswered)
    world.gone(PODS, pod)
    await checked(cycle)
    world.clock.now += 600
    assert await checked(cycle) == []
