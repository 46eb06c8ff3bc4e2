"""Many simulated nodes in one process.

In: names or shapes. Out: running fake kubelets.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

from testbed.controlplane import ControlPlane
from testbed.kubelet import FakeKubelet
from testbed.node import NodeShape

GROUP: Final = "kubelets"


@asynccontextmanager
async def simulated_nodes(
    cluster: ControlPlane, nodes: Sequence[NodeShape | str], *, root: Path | None = None, **options: Any
) -> AsyncIterator[dict[str, FakeKubelet]]:
    """Run a fake kubelet per node; yields them by node name when all Nodes are Ready.

    Each node's root is `root/<name>` (`cluster.folder/nodes/<name>` if not given). `options` go to every FakeKubelet. At
    the end the kubelets stop and the Node objects are deleted.
    """
    shapes = [NodeShape(each) if isinstance(each, str) else each for each in nodes]
    base = root or cluster.folder / "nodes"
    kubelets = {
        shape.name: FakeKubelet(
            shape,
            kubeconfig=cluster.client_kubeconfig(f"system:node:{shape.name}", ["system:nodes"]),
            root=base / shape.name,
            version=cluster.version,
            **options,
        )
        for shape in shapes
    }
    async with AsyncExitStack() as stack:
        for kubelet in kubelets.values():
            stack.push_async_callback(cluster.api.delete, f"/api/v1/nodes/{kubelet.name}")
            stack.push_async_callback(kubelet.stop)
        await asyncio.gather(*(kubelet.start() for kubelet in kubelets.values()))
        yield kubelets
