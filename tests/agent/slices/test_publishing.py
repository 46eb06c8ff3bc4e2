"""What a node publishes on a real API server, and when it publishes again."""

import aiohttp

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.eventually import eventually
from testbed.kubelet import FakeKubelet
from testbed.node import NodeShape
from testbed.ports import free_ports
from tests.agent.places import H100, RDMA
from tests.agent.simulatednode import SLICES, MakeNode

_HEARD = 30.0
"""Seconds; without being told, an agent compares its slices every minute."""


async def test_a_node_publishes_all_its_pools(make_node: MakeNode) -> None:
    """Three drivers, each with a whole pool; the server takes every slice as it is written."""
    async with (
        make_node(
            cards=[H100 | {"count": 8}, {"model": "310P", "count": 9}],
            nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:10", "numaNode": 0}],
        ) as node,
        node.agent(),
    ):
        found = await eventually(node.slices, lambda slices: len(slices) == 9 + 11 + 1)
        for driver in node.drivers():
            pools = {
                (s["spec"]["pool"]["generation"], s["spec"]["pool"]["resourceSliceCount"])
                for s in found
                if s["spec"]["driver"] == driver
            }
            assert pools == {(1, len([s for s in found if s["spec"]["driver"] == driver]))}
        owner = found[0]["metadata"]["ownerReferences"][0]
        assert (owner["kind"], owner["name"], owner["controller"]) == ("Node", node.name, True)
        assert len(await node.devices()) == 8 * 26
        assert set(await node.devices(RDMA)) == {"nic-mlx5-0"}


async def test_slices_that_did_not_change_are_not_rewritten(make_node: MakeNode) -> None:
    """What the server stores compares equal to what we want, taint times and canonical quantities included."""
    async with make_node(cards=[H100 | {"count": 2}, {"model": "910B4"}]) as node:
        async with node.agent():
            before = await eventually(node.slices, lambda slices: len(slices) == 5)
        async with node.agent():
            await node.registered()
            after = await node.slices()
            versions = [[s["metadata"]["resourceVersion"] for s in look] for look in (before, after)]
            assert versions[0] == versions[1]


async def test_wiped_slices_are_back_when_the_watch_tells(make_node: MakeNode) -> None:
    """Kubelet wipes them at its own start; the new ones have a newer generation."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        for item in await eventually(node.slices, lambda slices: len(slices) == 3):
            await node.api.delete(f"{SLICES}/{item['metadata']['name']}")
        back = await eventually(node.slices, lambda slices: len(slices) == 3, within=_HEARD)
        assert {s["spec"]["pool"]["generation"] > 1 for s in back} == {True}


async def test_a_kubelet_that_starts_anew_has_the_slices_back(
    make_node: MakeNode, control_plane: ControlPlane
) -> None:
    """It deletes all of the node's at its start, as the real one does; the agent's own rights are enough to put them back."""
    async with make_node(cards=[H100]) as node:
        folders = {"plugins_dir": node.folder / "plugins", "registry_dir": node.folder / "plugins_registry"}
        rights = control_plane.client_kubeconfig(f"system:node:{node.name}", ["system:nodes"])
        async with node.agent(**folders):
            slices = await eventually(node.slices, lambda found: len(found) == 2)
            for _ in range(2):
                before = {s["metadata"]["uid"] for s in slices}
                async with FakeKubelet(NodeShape(node.name), kubeconfig=rights, root=node.folder):
                    slices = await eventually(
                        node.slices,
                        lambda found, before=before: (
                            len(found) == 2
                            and before.isdisjoint(s["metadata"]["uid"] for s in found)
                            and len({s["spec"]["pool"]["generation"] for s in found}) == 1
                        ),
                        within=_HEARD,
                    )


async def test_a_layouts_partition_is_published_and_served(make_node: MakeNode, namespace: str) -> None:
    """A device of its own, subtracted from the counters; claims on it make no Partition."""
    device = "gpu-0-mig-1g10gb-19-0-static"
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    async with make_node(cards=[H100]) as node, node.agent():
        await node.partition(
            device, "1g.10gb", holder=layout, origin="Layout", placement={"start": 0, "size": 1}
        )
        await node.phase(device, "Ready")
        devices = await eventually(node.devices, lambda found: device in found)
        attributes = devices[device]["attributes"]
        assert attributes["layout"] == {"string": "nightly"}
        assert attributes["uuid"] == {"string": node.hardware()[0]["uuid"]}
        assert (await node.counters("gpu-0"))["memory-slice-0"] == "0"
        claim = await node.claim(namespace, "static", device)
        assert await node.prepared(claim) == ""
        await node.remove(device)
        await node.unprepare(claim)
        await eventually(node.devices, lambda found: device not in found)

        async def hardware() -> list[Json]:
            return node.hardware()

        # It is not offered any more from when its removal begins.
        await eventually(hardware, lambda rows: rows == [])


async def test_a_foreign_partition_is_subtracted_and_left_alone(make_node: MakeNode) -> None:
    """A partition made by hand: the agent may not remove it, and it blocks its place."""
    foreign = {"card": "gpu-0", "profile": "1g.10gb", "start": 6}
    async with make_node(cards=[H100], foreign=[foreign]) as node, node.agent():
        counters = await eventually(lambda: node.counters("gpu-0"))
        assert counters["memory-slice-6"] == "0"
        assert counters["memory-slice-5"] == "1"
        await node.partition("gpu-0-mig-1g10gb-19-6", "1g.10gb", origin="Warm")
        stuck = await node.phase("gpu-0-mig-1g10gb-19-6", "Pending")
        assert "did not make" in stuck["status"]["conditions"][0]["message"]
        await node.remove("gpu-0-mig-1g10gb-19-6")
        await eventually(lambda: node.see("gpu-0-mig-1g10gb-19-6"), lambda item: item == {})
        assert [p["foreign"] for p in node.hardware()] == [True]


async def test_a_sick_card_is_tainted_until_it_recovers(make_node: MakeNode) -> None:
    """Health is looked at all the time, not only at start."""
    async with make_node(cards=[H100]) as node, node.agent():
        await eventually(node.devices)
        for sick, taints in ((["gpu-0"], 2), ([], 1)):
            with node.switchboard() as state:
                state["faults"]["sick"] = sick
            await eventually(node.devices, lambda found, n=taints: len(found["gpu-0"]["taints"]) == n)


async def test_probes_and_metrics_are_served(make_node: MakeNode, namespace: str) -> None:
    """Ready once slices and sockets are there; prepares are counted."""
    (port,) = free_ports(1)
    async with make_node(cards=[H100]) as node, node.agent(health_port=port):
        claim = await node.claim(namespace, "counted", "gpu-0")
        assert await node.prepared(claim) == ""
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as web:

            async def status() -> int:
                async with web.get("/readyz") as answer:
                    return answer.status

            await eventually(status, lambda code: code == 200)
            async with web.get("/metrics") as answer:
                text = await answer.text()
        assert "apportion_agent_claims 1.0" in text
        assert 'apportion_agent_prepare_seconds_count{driver="gpu.apportion.dev"} 1.0' in text
