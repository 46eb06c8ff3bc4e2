"""Monitors of shared GPUs: with admin access they look at what others use, have no part of it, and change nothing for those."""

import json
from pathlib import Path

from apportion.agent.cdi import CdiFolder
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claims import ClaimRef
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import SharingStrategy
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS
from tests.agent.kubelet.filesbelow import preparer, written
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend


def ask(node: OneCard, uid: str, *shares: Object) -> ClaimRef:
    """Let the API have a claim of this UID and name, allocated to shares; each adds to its result, or says otherwise."""
    claim = written(*["gpu-0"] * len(shares), uid=uid)
    claim["metadata"]["name"] = uid
    for number, (result, more) in enumerate(
        zip(claim["status"]["allocation"]["devices"]["results"], shares, strict=True)
    ):
        result.update({"shareID": f"{uid}-{number}"} | more)
    node.server.put(CLAIMS, claim)
    return ClaimRef(claim["metadata"]["namespace"], uid, uid)


def part(cores: int = 0, **more: object) -> Object:
    """Return what a share consumes, and `more` of its result."""
    consumed = {"memory": "10Gi", "shares": "1"} | ({"cores": str(cores)} if cores else {})
    return {"consumedCapacity": consumed, **more}


def of_cuda(folder: Path, uid: str) -> list[list[str]]:
    """Return which variables of CUDA the containers of a claim have with each of its devices."""
    file = json.loads(CdiFolder(folder / "cdi").path(GPU, uid).read_text())
    texts = [device["containerEdits"]["env"] for device in file["devices"]]
    return [sorted(each.partition("=")[0] for each in env if each.startswith("CUDA")) for env in texts]


async def test_a_monitor_of_gpus_under_mps_has_nothing_set_up(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Two GPUs were refused to it; one had its daemon for as long as the monitor ran."""
    async with one_card(tmp_path, make_backend(cards=[H100 | {"count": 2}])) as node:
        own = ask(node, "own", part(30))
        monitor = ask(node, "monitor", part(25, adminAccess=True), part(25, adminAccess=True, device="gpu-1"))
        served = preparer(tmp_path, node, known=False)
        for ref in (own, monitor):
            await served.prepare(ref)
        assert len(of_cuda(tmp_path, "own")[0]) == 3
        assert of_cuda(tmp_path, "monitor") == [[], []]
        assert len(await node.context.hardware.daemons()) == 1
        await served.unprepare(own)
        assert await node.context.hardware.daemons() == {}


async def test_a_claim_that_looks_at_the_gpu_of_its_share_has_the_limits_with_its_share_alone(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The container that gets the request of the monitor is none of the daemon's."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        both = ask(node, "both", part(30), part(25, adminAccess=True, request="all"))
        await preparer(tmp_path, node, known=False).prepare(both)
        limited, looking = of_cuda(tmp_path, "both")
        assert (len(limited), looking) == (3, [])
        assert [row.percentage for row in node.context.journal.sharing()] == [30]


async def test_a_monitor_does_not_keep_the_strategy_by_which_a_gpu_was_shared(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It runs for ever; those who have a share keep it until the last has gone."""

    async def in_turns() -> PublishedSharing:
        return PublishedSharing(SharingStrategy.TIME_SLICING, 4)

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        own = ask(node, "own", part(30))
        monitor = ask(node, "monitor", part(25, adminAccess=True))
        served = preparer(tmp_path, node, known=False)
        for ref in (own, monitor):
            await served.prepare(ref)
        node.context.sharing = in_turns
        held = HeldClaims(node.context)
        held.looked.set()
        inventory = InventoryBuilder(node.context, held)
        assert (await inventory.build()).shared["gpu-0"].sharing.strategy is SharingStrategy.MPS
        await served.unprepare(own)
        assert (await inventory.build()).shared["gpu-0"].sharing.strategy is SharingStrategy.TIME_SLICING
        await served.prepare(ask(node, "turns", part()))
        assert of_cuda(tmp_path, "turns") == [[]]
