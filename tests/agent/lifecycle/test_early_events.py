"""What comes of Partitions while an agent that has lost its journal still looks for claims that were prepared."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml
from kubernetes_asyncio.client import Configuration

from apportion.agent.agent import Agent
from apportion.agent.backends import find
from apportion.agent.journal import Journal
from apportion.agent.kubelet.claims import ClaimRef
from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NODES, PARTITIONS, ResourceKind
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.places import GPU, options_below
from tests.cluster.apiserver import ApiServer, Json

FIRST, OTHER = "gpu-0-mig-1g10gb-19-0", "gpu-0-mig-1g10gb-19-1"
CLAIM = ClaimRef("team", "c", "11111111-1111-4111-8111-111111111111")


class LateClaims(Client):
    """Answers nothing about claims before it is told to."""

    def __init__(self, server: ApiServer) -> None:
        settings = Configuration(host=f"http://127.0.0.1:{server.port}")
        super().__init__(settings, patience=30.0, manager="apportion-agent")
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def get(self, kind: ResourceKind, name: str, *, namespace: str = "", **params: str) -> Json:
        """Return an object."""
        if kind is CLAIMS:
            self.asked.set()
            await self.answers.wait()
        return await super().get(kind, name, namespace=namespace, **params)


class Node:
    """A node with one card, whose agents run one after the other against an API server in memory."""

    def __init__(self, folder: Path, server: ApiServer) -> None:
        self.server = server
        self.folder = folder
        (folder / "node.yaml").write_text(yaml.safe_dump({"cards": [{"model": "H100-80GB"}]}))
        self.options = options_below(folder)
        (folder / "boot").write_text("first")

    @asynccontextmanager
    async def agent(self, client: Client) -> AsyncIterator[Agent]:
        """Run an agent until the block ends."""
        journal = Journal(self.options.state_dir / "journal.db", "first")
        made = Agent(self.options, client, find(self.options, journal), journal)
        try:
            async with beside(made.run(asyncio.Event())):
                yield made
        finally:
            journal.close()

    def cuts(self) -> list[str]:
        """Return the UUIDs of what is cut."""
        state = json.loads((self.folder / "node.yaml.state.json").read_text())
        return [each["uuid"] for each in state["partitions"]]

    def partition(self, device: str) -> Json:
        """Write a Partition that the claim holds."""
        holder = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": CLAIM.uid}
        spec = {"nodeName": "n", "driver": GPU, "pool": "n", "device": device, "parent": "gpu-0"}
        spec |= {"profile": "1g.10gb", "origin": "Claim"}
        metadata = {"name": f"n-{device}", "generation": 1, "finalizers": [AGENT_FINALIZER]}
        return self.server.put(PARTITIONS, {"metadata": metadata, "spec": {**spec, "holder": holder}})


@pytest.mark.slow
async def test_no_partition_is_removed_before_it_is_known_who_has_it(tmp_path: Path) -> None:
    """Somebody has deleted the Partition of a pod that runs, the journal is lost, and another Partition of the card comes meanwhile."""
    async with ApiServer().serving() as server:
        node = Node(tmp_path, server)
        server.put(NODES, {"metadata": {"name": "n"}})
        server.put(CLAIMS, allocated())
        made = node.partition(FIRST)
        async with server.client() as client, node.agent(client) as first:
            await eventually(_phase(server), lambda phase: phase == "Ready")
            await first.plugins[0].preparer.prepare(CLAIM)
        (cut,) = node.cuts()
        for file in node.options.state_dir.glob("journal.db*"):
            file.unlink()
        now = server.get(PARTITIONS, made["metadata"]["name"])
        server.put(
            PARTITIONS, now | {"metadata": now["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
        )
        async with LateClaims(server) as client, node.agent(client) as second:
            async with asyncio.timeout(60):
                await client.asked.wait()
            node.partition(OTHER)
            # Time enough for the event, and for a worker that would act on it.
            await asyncio.sleep(0.5)
            client.answers.set()
            await eventually(_served(second))
            assert cut in node.cuts()


def _served(agent: Agent) -> Callable[[], Awaitable[bool]]:
    async def ask() -> bool:
        return bool(agent.plugins) and CLAIM.uid in {row.uid for row in agent.context.journal.claims()}

    return ask


def _phase(server: ApiServer) -> Callable[[], Awaitable[str]]:
    async def ask() -> str:
        (found,) = server.all(PARTITIONS)
        return str(found.get("status", {}).get("phase"))

    return ask


def allocated() -> Json:
    """Return a claim that has the partition."""
    result = {"request": "r", "driver": GPU, "pool": "n", "device": FIRST}
    place = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}
    return {
        "metadata": {"name": "c", "namespace": "team", "uid": CLAIM.uid},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        "status": {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [place]},
            },
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
        },
    }
