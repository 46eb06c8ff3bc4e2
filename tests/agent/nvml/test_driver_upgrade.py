"""A driver that is exchanged under the agent, as k8s-driver-manager asks for it: by labels of the Node."""

from collections.abc import Awaitable, Callable

from apportion.agent.proto.health_v1_pb2 import HEALTHY, UNKNOWN
from testbed.api import Json
from testbed.eventually import eventually
from tests.agent.killedagent import journal_steps, killed_agent
from tests.agent.kubelet.claimentries import entries
from tests.agent.kubelet.healthlists import heard
from tests.agent.nvml.nodes import MakeFake
from tests.agent.simulatednode import SimulatedNode, holder

CLIENT = "nvidia.com/gpu.deploy.client"
PAUSED = "paused-for-driver-upgrade"
DEVICE = "gpu-0-mig-3g40gb-9-4"


async def label(node: SimulatedNode, value: str | None, key: str = CLIENT) -> None:
    """Label the Node; None takes the label off."""
    await node.api.patch(f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {key: value}}})


def session(held: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    """Return whether a process has a session, for those who wait."""

    async def asked() -> bool:
        return held()

    return asked


async def reasons(node: SimulatedNode) -> set[str]:
    """Return the values of the health taints of all devices, "" for a device without one."""
    return {
        next((row["value"] for row in device["taints"] if row["key"] == "apportion.dev/unhealthy"), "")
        for device in (await node.devices()).values()
    }


async def _prepared(node: SimulatedNode, claim: Json) -> None:
    """Have a claim prepared as kubelet does, again and again: the agent waits for less long than usual."""
    await eventually(lambda: node.prepared(claim), lambda error: error == "")


async def test_the_agent_lets_go_of_the_driver_while_its_node_asks_for_it(
    faked: MakeFake, namespace: str
) -> None:
    """New claims stay away, prepared ones keep their rows and are unprepared; with the new driver all is read anew."""
    async with faked() as (node, fake), killed_agent(node, "never", prepare_timeout=5) as agent:
        stays = await node.claim(namespace, "stays", DEVICE)
        await node.partition(DEVICE, "3g.40gb", holder=holder(stays))
        await agent.insist(lambda: _prepared(node, stays))
        goes = await node.claim(namespace, "goes", "gpu-0-mig-1g10gb-19-0")
        await node.partition("gpu-0-mig-1g10gb-19-0", "1g.10gb", holder=holder(goes))
        await _prepared(node, goes)
        published = await eventually(node.devices, bool)
        conditions = await eventually(lambda: entries(node.api, stays), bool)
        assert fake.held()

        await label(node, PAUSED)
        await eventually(session(fake.held), lambda held: not held)
        assert await eventually(lambda: reasons(node), lambda found: found == {"released"})
        assert (await node.devices()).keys() == published.keys()
        async with node.health() as lists:
            rows = await heard(lists, lambda rows: rows["gpu-0"].health != HEALTHY)
            assert rows["gpu-0"].health == UNKNOWN
            assert PAUSED in rows["gpu-0"].message
        assert await node.unprepared(goes) == ""
        late = await node.claim(namespace, "late", "gpu-0-mig-1g10gb-19-1")
        await node.partition("gpu-0-mig-1g10gb-19-1", "1g.10gb", holder=holder(late))
        assert await node.prepared(late) != ""
        assert journal_steps(node)[1][0] == "Prepared"
        assert await entries(node.api, stays) == conditions

        fake.exchange("580.65.06")
        assert not fake.held()
        await label(node, "true")
        assert await agent.ended() == 1
        await agent.start()
        assert await eventually(lambda: reasons(node), lambda found: found == {""})
        version = (await node.devices())["gpu-0"]["attributes"]["driverVersion"]
        assert version == {"version": "580.65.6"}
        await _prepared(node, late)
        # The exchange took the partition; its object and the claim that has it are still there, so it is cut anew.
        await _prepared(node, stays)


async def test_an_agent_that_starts_during_an_upgrade_opens_no_session_and_unprepares(
    faked: MakeFake, namespace: str
) -> None:
    """Pods that are evicted for the upgrade end only when their claims are unprepared; slices stay as they were."""
    async with faked() as (node, fake):
        async with killed_agent(node, "never") as agent:
            claim = await node.claim(namespace, "runs", "gpu-0")
            answer = await agent.insist(lambda: eventually(lambda: node.prepare(claim), bool))
            assert answer[claim["metadata"]["uid"]].error == ""
            # An agent that is killed while it publishes leaves half a pool.
            before = await eventually(node.devices, bool)
        await label(node, PAUSED, "nvidia.com/gpu.deploy.container-toolkit")
        inits = fake.calls()
        async with killed_agent(node, "never") as agent:
            unprepared = await agent.insist(lambda: eventually(lambda: node.unprepare(claim), bool))
            assert unprepared == {claim["metadata"]["uid"]: ""}
            (event,) = await eventually(lambda: node.events("DriverMissing"), bool)
            assert PAUSED in event["message"]
            assert await node.devices() == before
            assert fake.calls() == inits
            await label(node, "true", "nvidia.com/gpu.deploy.container-toolkit")
            assert await agent.ended() == 1
