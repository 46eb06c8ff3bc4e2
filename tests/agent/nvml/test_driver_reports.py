"""What driver and host say, from the C interface and the files to kubelet, containers and people."""

from apportion.agent.proto.health_v1_pb2 import HEALTHY, UNHEALTHY
from testbed.eventually import eventually
from tests.agent.killedagent import killed_agent
from tests.agent.kubelet.claimentries import entries
from tests.agent.kubelet.healthlists import MIG, heard
from tests.agent.nvml.driverhost import UBUNTU, VERSION, host
from tests.agent.nvml.nodes import MakeFake
from tests.agent.places import GPU
from tests.agent.simulatednode import holder


async def test_an_error_that_the_driver_reports_reaches_kubelet(faked: MakeFake) -> None:
    """Memory errors and a lost GPU until they are over; an XID error of the GPU's, not one that a program brought upon itself."""
    async with faked() as (node, fake), killed_agent(node, "never"):
        await eventually(node.is_served)
        async with node.health() as lists:
            fake.xid(0, 13)
            found = await heard(lists, bool)
            assert {row.health for row in found.values()} == {HEALTHY}
            fake.ecc(0, 1)
            await heard(lists, lambda rows: rows["gpu-0"].health == UNHEALTHY)
            fake.ecc(0, 0)
            await heard(lists, lambda rows: rows["gpu-0"].health == HEALTHY)
            fake.lose(0)
            found = await heard(lists, lambda rows: rows["gpu-0"].health == UNHEALTHY)
            assert "does not answer" in found["gpu-0"].message
            fake.heal()
            await heard(lists, lambda rows: rows["gpu-0"].health == HEALTHY)
            fake.xid(0, 79)
            await heard(lists, lambda rows: rows[MIG].health == UNHEALTHY)


async def test_a_host_without_driver_libraries_is_reported(faked: MakeFake, namespace: str) -> None:
    """On the Node, and on the claim whose container would look for them; the claim is prepared all the same."""
    async with faked() as (node, _), killed_agent(node, "never") as agent:
        claim = await node.claim(namespace, "bare", "gpu-0")
        answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
        assert answer[claim["metadata"]["uid"]].error == ""
        (event,) = await eventually(lambda: node.events("DriverFilesMissing"), bool)
        assert "no libcuda.so.1 in the usual library folders" in event["message"]
        found = await eventually(lambda: entries(node.api, claim), bool)
        (condition,) = found[f"{GPU}/gpu-0"]["conditions"]
        assert (condition["status"], condition["message"]) == ("True", event["message"])


async def test_a_container_gets_the_driver_of_a_host_that_has_it(faked: MakeFake, namespace: str) -> None:
    """Through the agent's socket: mounts and hooks in the claim's file, for a whole GPU as for a partition."""
    async with faked() as (node, _):
        assert node.options.host_root is not None
        host(node.options.host_root)
        device = "gpu-0-mig-1g10gb-19-0"
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "cuda", device)
            await node.partition(device, "1g.10gb", holder=holder(claim))
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
            (cdi,) = node.cdi().values()
            inside = {mount["containerPath"] for mount in cdi["containerEdits"]["mounts"]}
            assert f"/{UBUNTU}/libcuda.so.{VERSION}" in inside
            assert [hook["args"][1] for hook in cdi["containerEdits"]["hooks"]] == [
                "create-symlinks",
                "update-ldcache",
            ]
            paths = {file["path"] for file in cdi["devices"][0]["containerEdits"]["deviceNodes"]}
            assert {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools", "/dev/nvidia0"} <= paths
