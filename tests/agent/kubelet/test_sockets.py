"""The sockets by which kubelet finds an agent: those of the dead go, those of the living stay."""

import socket
from functools import partial
from pathlib import Path

import yaml

from testbed.eventually import eventually
from tests.agent.places import GPU, H100, RDMA
from tests.agent.simulatednode import MakeNode


def leave_behind(path: Path) -> None:
    """Leave a socket as a killed process does: the file is there, nobody answers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as dead:
        dead.bind(str(path))


async def test_sockets_of_agents_that_were_killed_are_removed(make_node: MakeNode) -> None:
    """Each pod has sockets of its own name: without this kubelet would try those of every killed one for ever."""
    async with make_node(cards=[H100]) as node:
        registry, plugin = node.folder / "r", node.folder / "p" / GPU
        leave_behind(registry / f"{GPU}-killed-reg.sock")
        leave_behind(registry / "other.dev-killed-reg.sock")
        leave_behind(plugin / "dra-killed.sock")
        async with node.agent(), node.agent(instance="next"):
            assert {path.name for path in registry.iterdir()} == {
                f"{GPU}-reg.sock",
                f"{GPU}-next-reg.sock",
                "other.dev-killed-reg.sock",
            }
            names = {path.name for path in plugin.glob("*.sock")}
            assert names == {"dra.sock", "dra-next.sock"}
            await node.registered()


async def test_a_claim_whose_unpreparation_was_not_answered_is_unprepared_after_the_last_card_has_left(
    make_node: MakeNode, namespace: str
) -> None:
    """Kubelet asks for as long as it has no answer, and its pod is Terminating meanwhile."""
    async with make_node(cards=[H100], nics=[{"name": "mlx5-0", "pcieRoot": "pci0000:9b"}]) as node:
        is_served = partial(node.is_served, RDMA)
        async with node.agent():
            await eventually(is_served)
            claim = await node.claim(namespace, "rail", "nic-mlx5-0", driver=RDMA)
            assert await node.prepared(claim, RDMA) == ""
            assert await node.unprepared(claim, RDMA) == ""
        (node.folder / "node.yaml").write_text(yaml.safe_dump({"cards": [H100]}))
        async with node.agent():
            await eventually(is_served)
            assert await node.unprepared(claim, RDMA) == ""
            assert "does not exist on this node" in await node.prepared(claim, RDMA)
