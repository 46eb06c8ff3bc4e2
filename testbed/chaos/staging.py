"""Staging: a node made for agents to live and die on, and nothing of it left afterwards.

In: a control plane with the manifests, fake hardware, a nursery. Out: a node whose agents have the manifests' rights, with a
token that names it, over a wire of its own.
"""

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from testbed import kubeconfig
from testbed.chaos.brood import Brood
from testbed.chaos.ground import Ground
from testbed.chaos.node import Node
from testbed.chaos.objects import PARTITIONS
from testbed.chaos.wire import Wire
from testbed.controlplane import ControlPlane
from testbed.installation import NAMESPACE


@asynccontextmanager
async def staged(
    cluster: ControlPlane,
    folder: Path,
    ground: Ground,
    brood: Brood,
    *,
    lose: str = "",
    patience: float = 30.0,
) -> AsyncIterator[Node]:
    """Make a node; at the end its agent is killed and its objects are removed. `patience` as in `Node.insist`, seconds."""
    made = await cluster.api.create("/api/v1/nodes", {"metadata": {"generateName": "chaos-"}})
    name = made["metadata"]["name"]
    rights = await cluster.service_account_kubeconfig(NAMESPACE, "apportion-agent", node=name)
    access = kubeconfig.read(rights)
    async with Wire(int(access.server.rpartition(":")[2])) as wire:
        direct = kubeconfig.Access(f"https://127.0.0.1:{wire.port}", access.authority, token=access.token)
        node = Node(
            name,
            folder,
            api=cluster.api,
            brood=brood,
            ground=ground,
            wire=wire,
            kubeconfig=direct.write(folder / "kubeconfig"),
            lose=lose,
            patience=patience,
        )
        try:
            yield node
        finally:
            await node.kill()
            await node.hang_up()
            await _tidy(cluster, node)


def loader(grounds: Iterable[Ground]) -> dict[str, str]:
    """Return what a nursery's own environment needs: the loader reads its path once, at a program's start."""
    paths = [ground.environment.get("LD_LIBRARY_PATH", "") for ground in grounds]
    return {"LD_LIBRARY_PATH": paths[0]} if any(paths) else {}


async def _tidy(cluster: ControlPlane, node: Node) -> None:
    """Leave nothing of the node in the cluster; the agent is gone, so its finalizers are lifted here."""
    for item in await node.partitions():
        path = f"{PARTITIONS}/{item['metadata']['name']}"
        await cluster.api.delete(path)
        if item["metadata"].get("finalizers"):
            await cluster.api.patch(path, {"metadata": {"finalizers": []}})
    await cluster.api.delete_all(
        "/apis/resource.k8s.io/v1/resourceslices", fieldSelector=f"spec.nodeName={node.name}"
    )
    await cluster.api.delete(f"/api/v1/nodes/{node.name}")
