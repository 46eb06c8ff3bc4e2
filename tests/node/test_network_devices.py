"""A NIC's network interface in a pod under the real kubelet, containerd and runc: by the runtime's own NRI, with real namespaces."""

import shutil
from collections.abc import AsyncIterator

import psutil
import pytest

from testbed.demo.demo import EXAMPLES
from testbed.eventually import eventually
from testbed.example import Example
from testbed.fakes.rdma import RdmaHost
from testbed.hostnetwork import HostNetwork, host_network
from testbed.realnode.installation import RealNodeInstallation
from testbed.realnode.workload import Workload, network_device


@pytest.fixture
async def network(installation: RealNodeInstallation, work: Workload) -> AsyncIterator[HostNetwork]:
    """Give the node a NIC with a real interface, and an agent that finds it; it leaves when no pod has it."""
    root = installation.hardware.root
    with host_network() as made:
        host = RdmaHost(root)
        host.add("mlx5_0", "0000:11:00.1", bridge="10", link="Ethernet", interface=made.name)
        await installation.agents.pop().stop()
        await installation.agent()
        yield made
        try:
            await work.empty()
            await installation.agents.pop().stop()
            host.remove("mlx5_0")
            for folder in ("infiniband", "infiniband_verbs", "infiniband_mad", "misc"):
                shutil.rmtree(root / "sys" / "class" / folder)
        finally:
            await installation.agent()  # the tests after this one have the same node


async def test_a_container_starts_with_the_interface_and_the_host_has_it_back_afterwards(
    work: Workload, network: HostNetwork
) -> None:
    """Beside the pod's own one, with the host's addresses; the container's first look sees it."""
    before = network.on_host()
    pod = await work.run("rail", network_device(interface={"name": "net1", "mtu": 1300}))
    assert sorted(pod.interfaces) == ["eth0", "far", "lo", "net1"]
    mtu, *addresses = pod.interfaces["net1"].replace("[", "").replace("]", "").split()
    assert (mtu, addresses[0]) == ("1300", network.address)
    assert network.on_host() == {}
    await work.delete("rail")
    await _back(network, before)


async def test_no_container_starts_without_the_interfaces_file_and_the_next_agent_writes_it(
    work: Workload, network: HostNetwork, installation: RealNodeInstallation
) -> None:
    """As when a sandbox began while no agent ran: the runtime refuses the container, and kubelet tries once more."""
    await work.run("rail", network_device(), restart="Always")
    await installation.agents.pop().kill()
    for file in (installation.node.host.run / "apportion" / "interfaces").iterdir():
        file.unlink()
    # Its only program; process 1 of the sandbox is another one of the same name.
    for process in map(psutil.Process, installation.node.processes()):
        if process.name() == "inspector" and "pause" not in process.cmdline():
            process.kill()
    await _says(work, "no such file or directory")
    await installation.agent()

    async def runs() -> int:
        pod = await work.pod("rail")
        return sum("running" in row["state"] for row in pod["status"]["containerStatuses"])

    await eventually(runs, lambda found: found == 1)
    assert network.on_host() == {}
    await work.delete("rail")


async def test_a_pod_that_ends_while_no_agent_runs_gives_it_back_to_the_next_one(
    work: Workload, network: HostNetwork, installation: RealNodeInstallation
) -> None:
    """Sandbox and namespace are gone by then; the interface is virtual, and would be gone with them."""
    before = network.on_host()
    await work.run("rail", network_device())
    await installation.agents.pop().kill()
    await work.ask_to_go("rail")

    async def containers() -> list[str]:
        return await installation.node.containerd.containers()

    await eventually(containers, lambda found: found == [])
    assert network.on_host() == {}
    await installation.agent()
    await _back(network, before)
    await work.delete("rail")


async def test_a_pod_in_the_hosts_network_sees_why_it_does_not_start(
    work: Workload, network: HostNetwork
) -> None:
    """By kubelet's Event, with the field; the interface stays."""
    before = network.on_host()
    await work.create("rail", network_device(host_network=True))
    await _says(work, "spec.hostNetwork: a network device cannot be moved")
    assert network.on_host() == before
    await work.delete("rail")


async def test_a_pod_that_joins_the_claim_sees_why_it_has_no_container_until_the_first_is_over(
    work: Workload, network: HostNetwork
) -> None:
    """Kubelet asks nobody about it: the claim is prepared. Past the operator's gate, too."""
    before = network.on_host()
    await work.run("rail", network_device())
    await work.join("late", "rail")
    await _says(work, "cannot be in that of pod", name="late")
    await work.ask_to_go("rail")
    pod = await work.running("late")
    printed = await work.printed(pod)
    assert any(line.startswith(f"interface {network.name} ") for line in printed)
    await work.ask_to_go("late")
    await work.delete("rail")
    await _back(network, before)


async def test_the_example_of_a_gpu_with_its_network_device_runs(
    work: Workload, network: HostNetwork
) -> None:
    """As it stands in examples/, with the image of this node: its interface has the name and the address that it asks for."""
    before = network.on_host()
    pod = await work.example(Example.read(EXAMPLES / "network-device.yaml"))
    lines = await work.printed(pod)
    (interface,) = (line for line in lines if line.startswith("interface net1 "))
    assert "9000" in interface
    assert "198.18.3.7/24" in interface
    await work.ask_to_go("network-device")
    await _back(network, before)


async def _back(network: HostNetwork, before: dict[str, object]) -> None:
    async def now() -> dict[str, object]:
        return network.on_host()

    await eventually(now, lambda found: found == before)


async def _says(work: Workload, text: str, name: str = "rail") -> None:
    """Wait until an Event about the pod has this text."""
    await eventually(lambda: work.events(name), lambda found: text in found)
