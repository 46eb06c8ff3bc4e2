"""Creates and removes the node on which agents are killed.

In: a control plane with the manifests, fake hardware, a pool of agents. Out: a node whose agents have the rights of the
manifests, a token bound to the node, and a relay of their own to the API server.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

from testbed import kubeconfig
from testbed.chaos.agentpool import AgentPool
from testbed.chaos.controldaemons import control_daemons
from testbed.chaos.fakehardware import FakeHardware
from testbed.chaos.node import ChaosNode
from testbed.chaos.nvmlhardware import NvmlHardware
from testbed.chaos.objects import PARTITIONS
from testbed.chaos.rail import rail
from testbed.chaos.relay import TcpRelay
from testbed.controlplane import ControlPlane
from testbed.errors import Unavailable
from testbed.hostnetwork import unsupported
from testbed.installation import NAMESPACE
from testbed.smalldisk import small_disk


@asynccontextmanager
async def chaos_node(
    cluster: ControlPlane,
    folder: Path,
    hardware: FakeHardware,
    pool: AgentPool,
    *,
    lose: str = "",
    patience: float = 30.0,
    network: bool = False,
    daemons: bool = False,
) -> AsyncIterator[ChaosNode]:
    """Create a Node; at the end its agent is killed and its objects are deleted. `patience` as in `ChaosNode.retry`, seconds.

    `network`: it has a NIC with an interface, where that can be. `daemons`: its cards can be shared by the programs of a claim.
    """
    made = await cluster.api.create("/api/v1/nodes", {"metadata": {"generateName": "chaos-"}})
    name = made["metadata"]["name"]
    rights = await cluster.service_account_kubeconfig(NAMESPACE, "apportion-agent", node=name)
    access = kubeconfig.read(rights)
    async with TcpRelay(int(access.server.rpartition(":")[2])) as relay:
        relayed = kubeconfig.Access(f"https://127.0.0.1:{relay.port}", access.authority, token=access.token)
        node = ChaosNode(
            name,
            folder,
            api=cluster.api,
            pool=pool,
            hardware=hardware,
            relay=relay,
            kubeconfig=relayed.write(folder / "kubeconfig"),
            lose=lose,
            patience=patience,
        )
        async with AsyncExitStack() as stack:
            # Without the right to mount one there is no full disk in the run.
            with suppress(Unavailable):
                node.disk = stack.enter_context(small_disk(folder / "state", megabytes=16))
            if daemons and isinstance(hardware, NvmlHardware):
                node.daemons = stack.enter_context(
                    control_daemons(hardware.fake, hardware.root, folder / "state")
                )
            if network and hardware.root is not None and not unsupported():
                node.rail = await stack.enter_async_context(rail(folder, hardware.root))
            try:
                yield node
            finally:
                await node.kill()
                await node.close_connections()
                await _delete_objects(cluster, node)


def has_rail(backend: str) -> bool:
    """Say whether nodes with this hardware have a NIC with a network interface here."""
    return backend == "nvml" and not unsupported()


def loader_environment(hardware: Iterable[FakeHardware]) -> dict[str, str]:
    """Return the environment of the fork server: the dynamic loader reads its search path once, when a program starts."""
    paths = [each.environment.get("LD_LIBRARY_PATH", "") for each in hardware]
    return {"LD_LIBRARY_PATH": paths[0]} if any(paths) else {}


async def _delete_objects(cluster: ControlPlane, node: ChaosNode) -> None:
    """Delete all objects of the node; the agent no longer runs, so its finalizers are removed here."""
    for item in await node.partitions():
        path = f"{PARTITIONS}/{item['metadata']['name']}"
        await cluster.api.delete(path)
        if item["metadata"].get("finalizers"):
            await cluster.api.patch(path, {"metadata": {"finalizers": []}})
    await cluster.api.delete_all(
        "/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={node.name}"
    )
    await cluster.api.delete(f"/api/v1/nodes/{node.name}")
