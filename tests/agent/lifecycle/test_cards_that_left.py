"""Partitions of a card that the node has no more when its agent starts."""

import asyncio
from pathlib import Path

import pytest
import yaml

from apportion.agent.agent import Agent
from apportion.agent.backends import find
from apportion.agent.journal import Journal
from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.kinds import NODES, PARTITIONS
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.places import GPU, options_below
from tests.cluster.apiserver import ApiServer, Json

LEFT = "gpu-9-mig-1g10gb-19-0"


@pytest.mark.parametrize("deleting", [False, True])
async def test_a_partition_of_a_card_that_left_is_answered_by_an_agent_that_starts(
    tmp_path: Path, *, deleting: bool
) -> None:
    """Its claim goes elsewhere, or its object goes; no event would come about it any more, and its pod waited for ever."""
    (tmp_path / "node.yaml").write_text(yaml.safe_dump({"cards": [{"model": "H100-80GB", "count": 1}]}))
    options = options_below(tmp_path)
    async with ApiServer().serving() as server, server.client() as client:
        server.put(NODES, {"metadata": {"name": "n"}})
        server.put(PARTITIONS, partition(deleting=deleting))
        journal = Journal(options.state_dir / "journal.db", "boot")
        agent = Agent(options, client, find(options, journal), journal)
        stop = asyncio.Event()

        async def answer() -> Json:
            return next(iter(server.all(PARTITIONS)), {})

        try:
            async with beside(agent.run(stop)):
                if deleting:
                    await eventually(
                        answer, lambda found: not found.get("metadata", {}).get("finalizers"), within=30
                    )
                else:
                    await eventually(
                        answer, lambda found: found.get("status", {}).get("phase") == "Failed", within=30
                    )
        finally:
            journal.close()


def partition(*, deleting: bool) -> Json:
    """Return what the operator wrote while no agent ran."""
    holder = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "c"}
    metadata: Json = {"name": f"n-{LEFT}", "generation": 1, "finalizers": [AGENT_FINALIZER]}
    if deleting:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {
        "nodeName": "n",
        "driver": GPU,
        "pool": "n",
        "device": LEFT,
        "parent": "gpu-9",
        "profile": "1g.10gb",
    }
    return {"metadata": metadata, "spec": {**spec, "origin": "Claim", "holder": holder}}
