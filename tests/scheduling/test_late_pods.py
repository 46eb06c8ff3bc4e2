"""The watch of pods breaks while that of claims goes on: what a pod took up meanwhile stays its own."""

from datetime import UTC, datetime

from apportion.allocator.state import State
from apportion.api.contract import GATE
from apportion.cluster.client import connect
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.cluster.reflector.reflector import Reflector
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.dra.selection import NodeSelector
from apportion.scheduling.writing.writer import Writer
from testbed.beside import beside
from testbed.binaries import Binaries
from testbed.components import APISERVER, ETCD
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from tests.scheduling import written

DEVICE = DeviceId("d.example.com", "n1", "dev")
_EVERY_POD = r"^/api/v1/pods\?"


async def test_a_pod_that_was_bound_unseen_keeps_the_device_of_a_claim_that_was_cleared(
    binaries: Binaries,
) -> None:
    """The snapshot shows the pod behind its gate when its claim loses the device; then the watch is whole again."""
    async with (
        ControlPlane(binaries=binaries, components=(ETCD, APISERVER)) as cluster,
        FaultyProxy(cluster.kubeconfig, [Rule(Fault.CUT, "GET", _EVERY_POD)]) as proxy,
        await connect(cluster.kubeconfig, manager="apportion-operator") as client,
        await connect(proxy.kubeconfig(cluster.folder / "late.kubeconfig"), manager="late") as late,
    ):
        writer = Writer(client, fence=lambda: None, now=lambda: datetime.now(UTC))
        snapshot = Snapshot(State(), wake=lambda: None)
        namespace = await cluster.make_namespace()
        account = {"metadata": {"name": "default"}}
        await cluster.api.create(f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
        claim = await written.claim(client, namespace)
        async with (
            beside(Reflector(late, PODS, snapshot.observe).run()),
            beside(Reflector(client, CLAIMS, snapshot.observe).run()),
        ):
            await eventually(lambda: _watches(proxy))
            proxy.rules = [Rule(Fault.DROP_REQUEST, "GET", _EVERY_POD)]
            spec = {
                "schedulingGates": [{"name": GATE}],
                "resourceClaims": [{"name": "device", "resourceClaimName": "c"}],
                "containers": [{"name": "c", "image": "none"}],
            }
            body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
            pod = Pod.from_json(await client.create(PODS, body, namespace=namespace))
            result = DeviceResult("r", DEVICE)
            allocation = Allocation((result,), node_selector=NodeSelector.of_name("n1"))
            await writer.allocate(claim, allocation, await writer.protect(claim), pod)
            await eventually(lambda: _holders(snapshot), lambda found: found == (claim.uid,))
            await eventually(lambda: _shown(snapshot, pod.uid), lambda found: found is not None)
            await eventually(lambda: _dropped(proxy))

            await writer.ungate(pod)
            target = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}}
            await cluster.api.create(f"/api/v1/namespaces/{namespace}/pods/p/binding", target)
            cleared = {"status": {"allocation": None, "reservedFor": None}}
            await client.patch(CLAIMS, "c", cleared, namespace=namespace, sub="status")
            await eventually(lambda: _holders(snapshot), lambda found: found == ())
            seen = snapshot.pods[pod.uid]
            assert (seen.gates, seen.node) == ((GATE,), None)

            proxy.rules.clear()
            await eventually(lambda: _shown(snapshot, pod.uid), lambda found: bool(found and found.node))
            assert await _holders(snapshot) == (f"ended:{claim.uid}",)


async def _holders(snapshot: Snapshot) -> tuple[str, ...]:
    return snapshot.state.holders(DEVICE)


async def _shown(snapshot: Snapshot, uid: str) -> Pod | None:
    return snapshot.pods.get(uid)


async def _dropped(proxy: FaultyProxy) -> bool:
    return proxy.faults[Fault.DROP_REQUEST] > 0


async def _watches(proxy: FaultyProxy) -> bool:
    return any("/api/v1/pods?" in each and "watch=" in each for each in proxy.requests)
