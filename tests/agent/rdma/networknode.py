"""A node with a NIC whose interface is a real one, its agent, its container runtime, and a claim for the NIC."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.rdma import RdmaHost
from testbed.hostnetwork import HostNetwork, host_network, ip, unmount_below
from testbed.runtimehand import RuntimeHand
from tests.agent.places import RDMA
from tests.agent.simulatednode import SLICES, MakeNode, SimulatedNode

NIC = "nic-mlx5-0"
_PATIENCE = 50.0
"""Seconds for another agent to start and do its part."""


def network_config(*requests: str, **parameters: Any) -> Json:
    """Return a `config` entry of an allocation that asks for network devices, for all requests if none is named."""
    body = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig", **parameters}
    opaque = {"driver": RDMA, "parameters": body}
    return {"source": "FromClaim", "requests": [*requests], "opaque": opaque}


class NetworkNode:
    """The node; `network` is its interface, `runtime` plays containerd."""

    def __init__(
        self, node: SimulatedNode, network: HostNetwork, host: RdmaHost, namespace: str, nic: str = NIC
    ) -> None:
        self.node = node
        self.nic = nic
        self._host = host
        self.network = network
        self.runtime = RuntimeHand()
        self._namespace = namespace
        self.before = network.on_host()
        self.pod = ""
        """UID of the pod that uses the last claim."""
        self.pods: dict[str, str] = {}
        """Names of pods by UID."""

    def beside(self) -> "NetworkNode":
        """Plug another NIC, whose interface is the other end of this one's, and return the same node for claims for it."""
        self._host.add("mlx5_1", "0000:9e:00.0", link="Ethernet", interface=self.network.peer, guid="1:2:3:4")
        other = NetworkNode(self.node, self.network, self._host, self._namespace, "nic-mlx5-1")
        other.runtime = self.runtime
        return other

    async def claim(
        self, name: str = "rail", *, asks: bool = True, devices: tuple[str, ...] = (), **parameters: Any
    ) -> Json:
        """Make a claim for the NIC or `devices`, with its network device if it `asks`, allocated and reserved for a pod."""
        config = [network_config(**parameters)] if asks else []
        made = await self.node.claim(
            self._namespace, name, *(devices or (self.nic,)), driver=RDMA, config=config
        )
        await self.node.reserve(made, await self._pod(made))
        return made

    async def _pod(self, claim: Json) -> Json:
        """Make the pod: reservations for pods that do not exist are taken away."""
        body = {
            "metadata": {"generateName": "train-"},
            "spec": {
                "nodeName": self.node.name,
                "tolerations": [{"operator": "Exists"}],
                "resourceClaims": [{"name": "rail", "resourceClaimName": claim["metadata"]["name"]}],
                "containers": [
                    {"name": "main", "image": "none", "resources": {"claims": [{"name": "rail"}]}}
                ],
            },
        }
        pod = await self.node.api.create(f"/api/v1/namespaces/{self._namespace}/pods", body)
        self.pod = pod["metadata"]["uid"]
        self.pods[self.pod] = pod["metadata"]["name"]
        return pod

    async def prepare(self, claim: Json) -> str:
        """Prepare it; returns the error."""
        error: str = await self.node.prepared(claim, driver=RDMA)
        return error

    async def prepared(self, **parameters: Any) -> Json:
        """Make a claim, and prepare it."""
        claim = await self.claim(**parameters)
        assert await self.prepare(claim) == ""
        return claim

    async def begun(self, pod: str = "") -> str:
        """Begin a sandbox of a pod, of the last claim's if none is given; returns its network namespace."""
        namespace, path = self.network.pod()
        assert await self.runtime.begin(pod or self.pod, path) == ""
        return namespace

    async def started(self, **parameters: Any) -> tuple[Json, str]:
        """Make a claim, prepare it, and begin its pod's sandbox; returns the claim and the pod's network namespace."""
        await self.heard()
        claim = await self.prepared(**parameters)
        return claim, await self.begun()

    async def unprepare(self, claim: Json) -> str:
        """Unprepare it; returns the error."""
        return await self.node.unprepared(claim, driver=RDMA)

    async def heard(self) -> None:
        """Wait until the agent hears of sandboxes."""
        await self.runtime.synchronized.wait()

    async def reconnected(self) -> None:
        """End the agent's connection to the runtime, and wait until there is another."""
        self.runtime.synchronized.clear()
        self.runtime.disconnect()
        await self.heard()

    def shown(self, claim: Json) -> Json | None:
        """Return what the file says that the claim's containers mount, None when no container can start for want of it."""
        try:
            found: Json = json.loads(Path(self.mount(claim)).read_text())
        except FileNotFoundError:
            return None
        return found

    def mount(self, claim: Json) -> str:
        """Return the file of the interface that the claim's containers mount."""
        (file,) = (raw for name, raw in self.node.cdi().items() if claim["metadata"]["uid"] in name)
        mounts = [mount for row in file["devices"] for mount in row["containerEdits"]["mounts"]]
        (path,) = (
            row["hostPath"] for row in mounts if row["containerPath"].endswith(f"/network/{self.nic}.json")
        )
        return str(path)

    async def create(self, claim: Json, pod: str) -> str:
        """Create a container of a pod that has the claim; returns why it does not start."""
        return await self.runtime.create(pod, self.mount(claim))

    async def follows(self, claim: Json, pod: str) -> None:
        """Wait until a pod's container starts, because the pod that had the interface is gone."""

        async def why() -> str:
            return await self.create(claim, pod)

        await eventually(why, lambda found: found == "")

    async def shared(self) -> tuple[Json, str, str]:
        """Make a claim, prepare it for its pod, and let another pod reserve it; returns the claim and the UIDs of both pods."""
        await self.heard()
        claim = await self.prepared()
        first = self.pod
        return claim, first, await self.joined(claim, first)

    async def joined(self, claim: Json, *others: str) -> str:
        """Let another pod reserve the claim, beside these; returns its UID."""
        uid: str = (await self._pod(claim))["metadata"]["uid"]
        await self.reserve(claim, *others, uid)
        return uid

    async def reserve(self, claim: Json, *pods: str) -> None:
        """Reserve the claim for these pods; without any, something that is no pod has it."""
        meta = claim["metadata"]
        path = f"/apis/resource.k8s.io/v1/namespaces/{meta['namespace']}/resourceclaims/{meta['name']}/status"
        users = [{"resource": "pods", "name": self.pods[each], "uid": each} for each in pods]
        other = {"apiGroup": "example.com", "resource": "tests", "name": "test", "uid": "test"}
        await self.node.api.patch(path, {"status": {"reservedFor": users or [other]}})

    async def delete(self, pod: str) -> None:
        """Delete a pod that has ended; controller-manager takes its reservation away."""
        await self.node.api.delete(f"/api/v1/namespaces/{self._namespace}/pods/{self.pods[pod]}", grace=0)

    async def offered(self) -> object:
        """Return what the node's slice says of the interface: whether a claim can have it."""
        (device,) = (await eventually(lambda: self.node.devices(RDMA), bool)).values()
        return device["attributes"].get("networkDevice", {}).get("bool")

    async def forget_slices(self) -> None:
        """Delete what the node has published."""
        for item in await self.node.slices():
            await self.node.api.delete(f"{SLICES}/{item['metadata']['name']}")

    async def can_start(self, claim: Json) -> Json:
        """Wait until the claim's containers can start, and return what they are told."""

        async def now() -> Json | None:
            return self.shown(claim)

        found = await eventually(now, lambda found: found is not None, within=_PATIENCE)
        assert found is not None
        return found

    def host_sees_no_interface(self) -> None:
        """Have /sys show what it shows while the interface is in another namespace: nothing."""
        self._host.hide_interface("mlx5_0")

    def as_the_kernel_gives_back(self, namespace: str) -> None:
        """End the pod's namespace as if the interface were a physical one: it is on the host, down, without addresses.

        It has a name of the kernel's if its own is taken (linux net/core/dev.c, default_device_exit_net).
        """
        (row,) = (row for row in ip("link", "show", namespace=namespace) if row["ifname"] != "lo")
        ip("link", "set", row["ifname"], "netns", "1", "name", f"dev{row['ifindex']}", namespace=namespace)
        unmount_below(self.node.options.run_dir)
        self.network.end(namespace)

    async def back(self) -> None:
        """Wait until the interface is on the host, as it was before the first claim."""

        async def now() -> dict[str, Any]:
            return self.network.on_host()

        await eventually(now, lambda found: found == self.before, within=_PATIENCE)


@asynccontextmanager
async def network_node(
    make_node: MakeNode, namespace: str, folder: Path, *, function: bool = False
) -> AsyncIterator[NetworkNode]:
    """Make one; afterwards nothing of it is left on this machine.

    `function`: its NIC is a virtual function, whose physical function has the interface's other end.
    """
    nics = [{"name": "mlx5-0", "pcieRoot": "pci0000:9b", "numaNode": 1}]
    host = RdmaHost(folder / "root")
    async with make_node(nics=nics) as node:
        with host_network() as network:
            physical = network.peer if function else network.name
            host.add("mlx5_0", "0000:9d:00.0", link="Ethernet", interface=physical)
            if function:
                host.add(
                    "mlx5_1", "0000:9d:00.1", link="Ethernet", interface=network.name, guid="1:2:3:4",
                    function_of="0000:9d:00.0",
                )  # fmt: skip
            node.options = replace(node.options, backend="rdma", host_root=host.root)
            made = NetworkNode(node, network, host, namespace, "nic-mlx5-1" if function else NIC)
            try:
                async with made.runtime.serving(node.options.nri_socket):
                    yield made
            finally:
                unmount_below(node.folder)
                shutil.rmtree(node.options.run_dir, ignore_errors=True)
