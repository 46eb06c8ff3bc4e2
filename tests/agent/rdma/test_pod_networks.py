"""A NIC's network interface in a pod: a real interface, real namespaces, a hand in place of the container runtime."""

import shutil

from testbed.eventually import eventually
from testbed.hostnetwork import ip, seen
from tests.agent.places import RDMA
from tests.agent.rdma.networknode import NetworkNode


async def test_the_interface_goes_into_the_pod_as_it_was_and_comes_back_as_it_was(rail: NetworkNode) -> None:
    """Name, MTU, addresses and routes, both ways: by the addresses RoCE finds its GIDs."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.prepared()
        assert rail.network.on_host() == rail.before
        assert rail.shown(claim) is None
        namespace = await rail.begun()
        assert rail.network.on_host() == {}
        inside = seen(rail.network.name, namespace)
        assert {**inside, "alias": "rail 3"} == rail.before
        assert rail.shown(claim) == {
            "interface": rail.network.name,
            "hardwareAddress": rail.before["mac"],
            "mtu": 1410,
            "addresses": [rail.network.address, rail.network.address6],
        }
        await rail.runtime.end(rail.pod)
        assert rail.network.on_host() == rail.before
        assert rail.shown(claim) is None
        assert await rail.unprepare(claim) == ""
        assert not list((rail.node.options.run_dir / "namespaces").iterdir())


async def test_a_claim_that_does_not_ask_leaves_the_interface_on_the_host(rail: NetworkNode) -> None:
    """Its containers get character devices, and start without an interface."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim(asks=False)
        assert await rail.prepare(claim) == ""
        await rail.begun()
        assert rail.network.on_host() == rail.before
        (file,) = rail.node.cdi().values()
        assert "apportion/network" not in str(file)


async def test_the_claim_says_how_the_interface_is_in_the_pod(rail: NetworkNode) -> None:
    """Name, MTU, addresses and routes of its own; on the host it is afterwards what it was."""
    async with rail.node.agent():
        claim, namespace = await rail.started(
            interface={"name": "net1", "mtu": 1300, "addresses": ["198.18.80.5/24"]},
            routes=[{"destination": "198.18.81.0/24", "gateway": "198.18.80.1"}],
        )
        inside = seen("net1", namespace)
        assert (inside["mtu"], inside["addresses"], inside["routes"]) == (
            1300, ["198.18.80.5/24"], [("198.18.81.0/24", "198.18.80.1", 0)],
        )  # fmt: skip
        assert await rail.unprepare(claim) == ""
        assert rail.network.on_host() == rail.before


async def test_what_the_node_needs_stays_on_the_host(rail: NetworkNode) -> None:
    """A default route, the node's own address, a device that is stacked on it: each is a reason, and kubelet shows it."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.claim()
        ip(
            "route",
            "add",
            "default",
            "via",
            rail.network.gateway,
            "dev",
            rail.network.name,
            "metric",
            "4000000000",
        )
        assert "stays on the host: a default route of the node goes through it" in await rail.prepare(claim)
        ip("route", "delete", "default", "via", rail.network.gateway, "dev", rail.network.name)
        hop = ("nexthop", "via", rail.network.gateway, "dev", rail.network.name)
        ip("route", "add", "default", "metric", "4000000000", *hop, *hop)
        assert "a default route of the node goes through it" in await rail.prepare(claim)
        ip("route", "delete", "default", "metric", "4000000000", *hop, *hop)
        ip("link", "add", f"{rail.network.name}m", "link", rail.network.name, "type", "macvlan")
        assert f"{rail.network.name}m is stacked on it" in await rail.prepare(claim)
        ip("link", "delete", f"{rail.network.name}m")
        own = rail.network.address.split("/")[0]
        addresses = {"addresses": [{"type": "InternalIP", "address": own}]}
        await rail.node.api.patch(f"/api/v1/nodes/{rail.node.name}/status", {"status": addresses})
        assert f"it has the node's address {own}" in await rail.prepare(claim)
        await rail.node.api.patch(f"/api/v1/nodes/{rail.node.name}/status", {"status": {"addresses": None}})
        assert await rail.prepare(claim) == ""


async def test_slices_say_whether_a_claim_can_have_the_interface(rail: NetworkNode) -> None:
    """By an attribute that follows the host: a NIC that the node needs is offered for its character devices only."""
    route = ("default", "via", rail.network.gateway, "dev", rail.network.name, "metric", "4000000000")
    ip("route", "add", *route)
    async with rail.node.agent():
        assert await rail.offered() is False
        assert await rail.prepare(await rail.claim(asks=False)) == ""
        ip("route", "delete", *route)
        await eventually(rail.offered, lambda found: found is True)
        ip("link", "add", f"{rail.network.name}m", "link", rail.network.name, "type", "macvlan")
        await eventually(rail.offered, lambda found: found is False)
        ip("link", "delete", f"{rail.network.name}m")
        await eventually(rail.offered, lambda found: found is True)


async def test_an_interface_in_a_pod_counts_as_one_that_can_be_had(rail: NetworkNode) -> None:
    """Else the slice would change with each pod, and what the host does not see would be taken for gone."""
    async with rail.node.agent():
        await rail.started()
    async with rail.node.agent():
        await rail.heard()
        assert await rail.offered() is True


async def test_a_pod_in_the_hosts_network_does_not_start(rail: NetworkNode) -> None:
    """The claim asks for what such a pod cannot have; nothing is moved."""
    async with rail.node.agent():
        await rail.heard()
        await rail.prepared()
        assert "spec.hostNetwork" in await rail.runtime.begin(rail.pod, "")
        assert rail.network.on_host() == rail.before


async def test_a_name_that_is_taken_in_the_pod_keeps_the_sandbox_from_starting(rail: NetworkNode) -> None:
    """The runtime's own interface has it; the NIC stays on the host, as it was, until the next try."""
    async with rail.node.agent():
        await rail.heard()
        await rail.prepared(interface={"name": "eth0"})
        namespace, path = rail.network.pod()
        ip("link", "add", "eth0", "type", "veth", "peer", "name", "eth0far", namespace=namespace)
        assert "cannot be eth0 in the pod: File exists" in await rail.runtime.begin(rail.pod, path)
        assert rail.network.on_host() == rail.before
        ip("link", "delete", "eth0", namespace=namespace)
        assert await rail.runtime.begin(rail.pod, path) == ""
        assert seen("eth0", namespace)["up"]


async def test_a_claim_waits_for_a_runtime_that_tells_of_sandboxes(rail: NetworkNode) -> None:
    """Without one nobody would move the interface; the reason names the interface of the runtime."""
    async with rail.node.agent(nri_socket=rail.node.folder / "nobody.sock"):
        assert "the container runtime is not connected (NRI)" in await rail.prepare(await rail.claim())


async def test_a_pod_that_ends_while_no_agent_runs_loses_no_interface(rail: NetworkNode) -> None:
    """Its namespace is kept until the interface is out of it: a virtual one would end with it."""
    async with rail.node.agent():
        claim, namespace = await rail.started(interface={"name": "net1"})
    await rail.runtime.end(rail.pod, heard=False)
    rail.network.end(namespace)
    assert rail.network.on_host() == {}
    async with rail.node.agent():
        await rail.back()
        assert await rail.unprepare(claim) == ""
        assert rail.network.on_host() == rail.before


async def test_a_pod_that_begins_while_no_agent_runs_gets_it_from_the_next_one(rail: NetworkNode) -> None:
    """Its containers cannot start meanwhile: the file that they mount is not there."""
    async with rail.node.agent():
        await rail.heard()
        claim = await rail.prepared()
    namespace, path = rail.network.pod()
    async with rail.node.agent(nri_socket=rail.node.folder / "nobody.sock"):
        assert rail.shown(claim) is None
        assert rail.network.on_host() == rail.before
    rail.runtime.note(rail.pod, path)
    async with rail.node.agent():

        async def inside() -> dict[str, object]:
            return seen(rail.network.name, namespace)

        await eventually(inside, lambda found: bool(found.get("routes") and found.get("addresses")))
        await rail.can_start(claim)


async def test_an_agent_that_starts_anew_leaves_a_running_pods_interface_alone(rail: NetworkNode) -> None:
    """With what the pod has changed of it. It publishes the NIC as it did: the host does not see its interface meanwhile."""
    async with rail.node.agent():
        _, namespace = await rail.started()
        ip("link", "set", rail.network.name, "mtu", "1280", namespace=namespace)
        inside = seen(rail.network.name, namespace)
        (published,) = (await eventually(lambda: rail.node.devices(RDMA), bool)).values()
    rail.host_sees_no_interface()
    await rail.forget_slices()
    async with rail.node.agent():
        await rail.heard()
        (device,) = (await eventually(lambda: rail.node.devices(RDMA), bool)).values()
        assert device["attributes"] == published["attributes"]
        assert seen(rail.network.name, namespace) == inside


async def test_a_lost_journal_loses_no_interface(rail: NetworkNode) -> None:
    """What it said of an interface in a pod is written down beside it, too: how it was, and whose it is."""
    async with rail.node.agent():
        claim, namespace = await rail.started(interface={"name": "net1"})
    shutil.rmtree(rail.node.options.state_dir)
    async with rail.node.agent():
        await rail.heard()
        assert seen("net1", namespace)["addresses"] == rail.before["addresses"]
        assert await rail.unprepare(claim) == ""
        assert rail.network.on_host() == rail.before


async def test_another_sandbox_of_the_pod_gets_it_and_the_end_of_the_first_takes_nothing(
    rail: NetworkNode,
) -> None:
    """Kubelet makes a new sandbox where the first has died, and ends the first one once more before it removes it."""
    async with rail.node.agent():
        _, first = await rail.started()
        old = rail.runtime.sandboxes[rail.pod]
        second, path = rail.network.pod()
        rail.network.end(first)
        assert await rail.runtime.begin(rail.pod, path) == ""
        inside = seen(rail.network.name, second)
        assert inside["addresses"] == rail.before["addresses"]
        await rail.runtime.end_once_more(old)
        assert seen(rail.network.name, second) == inside


async def test_what_the_kernel_gave_back_under_another_name_is_put_right(rail: NetworkNode) -> None:
    """A physical interface comes back to the host when its namespace ends, without addresses, and may have another name."""
    async with rail.node.agent():
        _, namespace = await rail.started(interface={"name": "net1"})
    rail.as_the_kernel_gives_back(namespace)
    assert rail.network.on_host() == {}
    async with rail.node.agent():
        await rail.back()
