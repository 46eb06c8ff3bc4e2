"""Claims that lost their devices: what is prepared for them stays theirs until kubelet comes, and is told; what is half prepared is undone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.rotation import LEAST
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.api.contract import HELD
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS, ResourceKind
from apportion.errors import Missing, NotReady, Unreachable
from testbed.beside import beside
from tests.agent.lifecycle.onecard import OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend


def on(node: str) -> Object:
    """Return the claim, allocated to the card of that name on a node."""
    result = {"request": "r0", "driver": GPU, "pool": node, "device": "gpu-0"}
    return {
        "metadata": {"namespace": "default", "name": "c", "uid": "c"},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
        "status": {"allocation": {"devices": {"results": [result]}}},
    }


def answering(patch: pytest.MonkeyPatch, node: OneCard, claim: Object) -> None:
    """Have the API server show the claim."""

    async def get(kind: ResourceKind, name: str, **_: str) -> Object:
        assert (kind, name) == (CLAIMS, "c")
        return claim

    patch.setattr(node.api, "get", get)


@pytest.mark.parametrize(("where", "held"), [("n", []), ("other", ["c"])])
async def test_a_claim_that_has_a_device_of_that_name_on_another_node_has_lost_this_one(
    tmp_path: Path,
    make_backend: MakeBackend,
    monkeypatch: pytest.MonkeyPatch,
    where: str,
    held: list[str],
) -> None:
    """Cards have the same names on every node: a pod deleted by force leaves its containers here, and its claim goes there."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        answering(monkeypatch, node, on(where))
        claims = HeldClaims(node.context)
        await claims.check()
        assert [row.uid for row in claims.rows()] == held


@pytest.mark.parametrize("starts", [False, True], ids=["runs", "starts"])
async def test_an_old_answer_does_not_free_a_device_that_its_claim_has_lost(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch, *, starts: bool
) -> None:
    """The cache of an API server that lags behind still shows the claim here; the device would go to the next pod beside running containers."""
    shown = {"": on("other"), "0": on("n" if starts else "other")}

    async def get(*_: object, resourceVersion: str = "", **__: str) -> Object:  # noqa: N803 - the API's name
        return shown[resourceVersion]

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        monkeypatch.setattr(node.api, "get", get)
        claims = HeldClaims(node.context)
        await claims.check()
        assert [row.uid for row in claims.rows()] == ["c"]
        shown["0"] = on("n")
        await claims.check()
        assert [row.uid for row in claims.rows()] == ["c"]
        shown[""] = on("n")
        await claims.check()
        assert claims.rows() == ()


async def test_a_preparation_is_undone_whose_claim_went_to_another_node(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kubelet never got an answer and does not come: the device would be nobody's for ever."""
    undone: list[ClaimRow] = []

    async def abandon(row: ClaimRow) -> bool:
        undone.append(row)
        return True

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0", ClaimStep.INJECTED)
        answering(monkeypatch, node, on("other"))
        await HeldClaims(node.context, abandon=abandon).check()
        assert [row.uid for row in undone] == ["c"]


async def test_a_preparation_that_cannot_be_undone_holds_its_devices_until_it_is(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People force a pod that hangs in Terminating: without the taint the next pod is given what is refused to it."""
    refusals = [NotReady("the control daemon has not ended yet")] * 2

    async def abandon(row: ClaimRow) -> bool:
        if refusals:
            raise refusals.pop()
        node.context.journal.drop_claim(row.uid, row.driver)
        return True

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0", ClaimStep.UNPREPARING)
        answering(monkeypatch, node, on("other"))
        claims = HeldClaims(node.context, abandon=abandon)
        for _ in range(2):
            await claims.check()
            assert [row.uid for row in claims.rows()] == ["c"]
        await claims.check()
        assert claims.rows() == ()


async def test_an_agent_that_starts_offers_nothing_before_it_knows_which_claims_lost_their_devices(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The taint of the agent before would go for a moment, in which a waiting pod takes the device and then waits for ever."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        answers = iter([Unreachable("nobody listens"), None])

        async def get(*_: object, **__: str) -> Object:
            await asyncio.sleep(0.01)
            refusal = next(answers, None)
            raise refusal if refusal is not None else Missing("ResourceClaim default/c")

        monkeypatch.setattr(node.api, "get", get)
        claims = HeldClaims(node.context, interval=0.01)
        async with beside(claims.run()):
            inventory = await InventoryBuilder(node.context, claims).build()
        assert [taint.key for taint in inventory.taints["gpu-0"]] == [HELD]


async def test_a_claim_that_is_never_answered_keeps_the_node_unpublished_for_half_a_minute(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One object that the server cannot read must not cost the node its devices."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")

        async def get(*_: object, **__: str) -> Object:
            raise Unreachable("decoding failed", status=500)

        monkeypatch.setattr(node.api, "get", get)
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            await asyncio.sleep(0)

        claims = HeldClaims(node.context, sleep=sleep)
        async with beside(claims.run()):
            await claims.looked.wait()
        assert waited.count(1.0) == 29


async def test_a_claim_whose_partition_has_another_holder_does_not_wait_for_its_turn(
    tmp_path: Path, make_backend: MakeBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator has taken it away: until the taint is there somebody else may be given what the containers use, and wait for them."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:

        async def gone(*_: object, **__: str) -> Object:
            raise Missing("ResourceClaim default/c")

        monkeypatch.setattr(node.api, "get", gone)
        uids = [f"c{number}" for number in range(LEAST + 1)]
        for uid in uids:
            device = f"gpu-0-{uid}"
            holder = {"kind": "ResourceClaim", "namespace": "default", "name": uid, "uid": uid}
            node.partition(f"p-{uid}", device, **({"holder": holder} if uid != uids[-1] else {}))
            row = node.prepared(uid, device)
            bound = tuple(replace(each, partition=f"p-{uid}") for each in row.devices)
            node.context.journal.put_claim(replace(row, devices=bound))
        claims = HeldClaims(node.context)
        await claims.check()
        assert uids[-1] in {row.uid for row in claims.rows()}
        assert len(claims.rows()) == LEAST + 1
