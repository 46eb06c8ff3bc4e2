"""Claims that lost their devices: what is prepared for them stays theirs until kubelet comes, and is told; what is half prepared is undone."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from apportion.agent.cdi import CdiFolder
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.kubelet.rotation import LEAST
from apportion.agent.rows import ClaimRow, ClaimStep
from apportion.api.contract import HELD
from apportion.cluster.client import Object
from apportion.cluster.kinds import CLAIMS
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import held_claims, written
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, MakeBackend
from tests.cluster.apiserver import failed


def on(node: str) -> Object:
    """Return the claim, allocated to the card of that name on a node."""
    return written("gpu-0", pool=node, uid="c")


@pytest.mark.parametrize(("where", "held"), [("n", []), ("other", ["c"])])
async def test_a_claim_that_has_a_device_of_that_name_on_another_node_has_lost_this_one(
    tmp_path: Path, make_backend: MakeBackend, where: str, held: list[str]
) -> None:
    """Cards have the same names on every node: a pod deleted by force leaves its containers here, and its claim goes there."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        node.server.put(CLAIMS, on(where))
        claims = HeldClaims(node.context)
        await claims.check()
        assert [row.uid for row in claims.rows()] == held


@pytest.mark.parametrize("starts", [False, True], ids=["runs", "starts"])
async def test_an_old_answer_does_not_free_a_device_that_its_claim_has_lost(
    tmp_path: Path, make_backend: MakeBackend, *, starts: bool
) -> None:
    """The cache of an API server that lags behind still shows the claim here; the device would go to the next pod beside running containers."""
    remembered = on("n" if starts else "other")
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        node.server.put(CLAIMS, on("other"))
        node.server.fault = lambda request: (
            web.json_response(remembered) if request.query.get("resourceVersion") == "0" else None
        )
        claims = HeldClaims(node.context)
        await claims.check()
        assert [row.uid for row in claims.rows()] == ["c"]
        remembered = on("n")
        await claims.check()
        assert [row.uid for row in claims.rows()] == ["c"]
        node.server.put(CLAIMS, on("n"))
        await claims.check()
        assert claims.rows() == ()


async def test_a_preparation_is_undone_whose_claim_went_to_another_node(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Kubelet never got an answer and does not come: the device would be nobody's for ever."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0", ClaimStep.INJECTED)
        node.server.put(CLAIMS, on("other"))
        claims = held_claims(tmp_path, node)
        await claims.check()
        assert claims.rows() == ()
        assert node.context.journal.claims() == ()


async def test_a_preparation_that_cannot_be_undone_holds_its_devices_until_it_is(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """People force a pod that hangs in Terminating: without the taint the next pod is given what is refused to it."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0", ClaimStep.UNPREPARING)
        node.server.put(CLAIMS, on("other"))
        claims = held_claims(tmp_path, node)
        # What is no file is not removed as one.
        obstacle = CdiFolder(tmp_path / "cdi").path(GPU, "c")
        obstacle.mkdir(parents=True)
        for _ in range(2):
            await claims.check()
            assert [row.uid for row in claims.rows()] == ["c"]
        obstacle.rmdir()
        await claims.check()
        assert claims.rows() == ()
        assert node.context.journal.claims() == ()


async def test_a_preparation_whose_undoing_hangs_keeps_no_other_lost_device_from_being_seen(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Nothing of the node is published before all claims were looked at: a NIC whose driver hangs would keep its GPUs."""
    going_on, begun = asyncio.Event(), 0

    async def abandon(row: ClaimRow) -> bool:
        nonlocal begun
        begun += 1
        await going_on.wait()
        await asyncio.to_thread(node.context.journal.drop_claim, row.uid, row.driver)
        return True

    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0-mig-1g10gb-19-0", ClaimStep.UNPREPARING)
        node.prepared("d", "gpu-0-mig-1g10gb-19-1")
        claims = HeldClaims(node.context, abandon=abandon, patience=0.01)
        for _ in range(2):
            async with asyncio.timeout(10):
                await claims.check()
            assert claims.looked.is_set()
            assert [row.uid for row in claims.rows()] == ["c", "d"]
        going_on.set()

        async def lost() -> list[str]:
            await claims.check()
            return [row.uid for row in claims.rows()]

        assert await eventually(lost, lambda found: found == ["d"]) == ["d"]
        assert begun == 1


async def test_an_agent_that_starts_offers_nothing_before_it_knows_which_claims_lost_their_devices(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The taint of the agent before would go for a moment, in which a waiting pod takes the device and then waits for ever."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        refusals = [failed(503, "etcd has no leader")]
        node.server.fault = lambda _: refusals.pop() if refusals else None
        claims = HeldClaims(node.context, interval=0.01)
        async with beside(claims.run()):
            inventory = await InventoryBuilder(node.context, claims).build()
        assert refusals == []
        assert [taint.key for taint in inventory.taints["gpu-0"]] == [HELD]


async def test_a_claim_that_is_never_answered_keeps_the_node_unpublished_for_half_a_minute(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """One object that the server cannot read must not cost the node its devices."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        node.server.fault = lambda _: failed(500, "decoding failed")
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            await asyncio.sleep(0)

        claims = HeldClaims(node.context, sleep=sleep)
        async with beside(claims.run()):
            await claims.looked.wait()
        assert waited.count(1.0) == 29


async def test_a_claim_whose_partition_has_another_holder_does_not_wait_for_its_turn(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The operator has taken it away: until the taint is there somebody else may be given what the containers use, and wait for them."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
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


def allocated(*results: tuple[str, str, bool]) -> Object:
    """Return the claim by its results: request, card, whether it only looks at that (admin access)."""
    claim = written(*(card for _, card, _ in results), uid="c")
    for result, (request, _, admin) in zip(
        claim["status"]["allocation"]["devices"]["results"], results, strict=True
    ):
        result |= {"request": request, "adminAccess": admin}
    return claim


@pytest.mark.parametrize("admin", [True, False], ids=["looks", "has"])
async def test_the_api_says_whether_a_claim_only_looks_at_what_it_has_prepared(
    tmp_path: Path, make_backend: MakeBackend, *, admin: bool
) -> None:
    """A row that was recovered while the API was silent may say the contrary; what is not answered changes nothing."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        row = node.prepared("c", "gpu-0")
        (device,) = row.devices
        wrong, right = (replace(row, devices=(replace(device, admin=each),)) for each in (not admin, admin))
        node.context.journal.put_claim(wrong)
        published: list[None] = []
        node.context.slices_changed = lambda: published.append(None)
        node.server.put(CLAIMS, allocated(("r0", "gpu-0", admin)))
        claims = HeldClaims(node.context)
        node.server.fault = lambda _: failed(503, "etcd has no leader")
        await claims.check()
        assert (node.context.journal.claims(), published) == ((wrong,), [])
        node.server.fault = lambda _: None
        await claims.check()
        await claims.check()
        assert (node.context.journal.claims(), published) == ((right,), [None])


async def test_what_a_claim_has_prepared_stays_its_own_when_it_looks_at_that_for_another_request(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its pod was deleted by force, and the claim allocated anew, the devices exchanged: containers of that pod use the one that it looks at now."""
    async with one_card(tmp_path, make_backend(cards=[H100 | {"count": 2}])) as node:
        row = node.prepared("c", "gpu-0")
        node.server.put(CLAIMS, allocated(("r1", "gpu-0", True), ("r0", "gpu-1", False)))
        await HeldClaims(node.context).check()
        assert node.context.journal.claims() == (row,)


async def test_a_claim_that_is_unprepared_while_the_api_is_asked_is_not_written_down_anew(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its device would be nobody's for ever: kubelet does not unprepare it once more."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.prepared("c", "gpu-0")
        node.server.put(CLAIMS, allocated(("r0", "gpu-0", True)))

        def unprepared(_: web.Request) -> None:
            node.context.journal.drop_claim("c", GPU)

        node.server.fault = unprepared
        await HeldClaims(node.context).check()
        assert node.context.journal.claims() == ()
