"""The Partition of a claim that is prepared goes, or is about to: the claim keeps what its containers use."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from apportion.agent.kubelet.prepare import Preparer
from apportion.agent.rows import ClaimStep
from apportion.cluster.client import Object
from apportion.cluster.kinds import PARTITIONS
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.onecard import DEVICE, LAYOUT, OneCard, one_card
from tests.agent.places import H100, MakeBackend

HOLDER = {"kind": "ResourceClaim", "namespace": REF.namespace, "name": REF.name, "uid": REF.uid}
OF_CLAIM: dict[str, Any] = {"device": DEVICE, "origin": "Claim", "holder": HOLDER}
OF_LAYOUT: dict[str, Any] = {"device": f"{DEVICE}-static", "origin": "Layout", "holder": LAYOUT}


async def prepared(folder: Path, node: OneCard, spec: dict[str, Any]) -> Preparer:
    """Have the claim prepared with a partition; later prepare calls give up at once."""
    node.partition("p1", **spec)
    await node.work()
    preparing = preparer(folder, node, spec["device"])
    await preparing.prepare(REF)
    ticks = count(1000, 20)
    node.context.clock = lambda: float(next(ticks))
    return preparing


def made_anew(node: OneCard, spec: dict[str, Any], **changed: Any) -> Object:
    """Have somebody take the finalizers off the object, which goes, and the operator make it anew."""
    node.context.desired.observe(PARTITIONS, "DELETED", node.items[f"n-{spec['device']}"])
    return node.partition("p2", **{**spec, **changed})


@pytest.mark.parametrize("spec", [OF_CLAIM, OF_LAYOUT], ids=["claim", "layout"])
async def test_an_object_that_was_made_anew_has_what_its_claim_has_prepared(
    tmp_path: Path, make_backend: MakeBackend, spec: dict[str, Any]
) -> None:
    """It passed for a person's partition: no object was the claim's, and kubelet's next prepare was refused until the pod ended."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        preparing = await prepared(tmp_path, node, spec)
        (live,) = await node.live()
        new = made_anew(node, spec)
        await node.work()
        status = node.status(new)
        assert (status["phase"], status["uuid"], status["preparedBy"]) == ("Ready", live.uuid, [REF.uid])
        await preparing.prepare(REF)
        node.delete(new)
        await node.work()
        assert await node.live() == (live,)
        await preparing.unprepare(REF)
        await node.work()
        assert (await node.live(), node.items, node.context.journal.partitions()) == ((), {}, {})


@pytest.mark.parametrize(
    "changed",
    [{"holder": {**HOLDER, "uid": "other"}}, {"holder": None}, {"origin": "Layout", "holder": LAYOUT}],
    ids=["another claim", "nobody", "a layout"],
)
async def test_an_object_of_another_holder_does_not_get_what_containers_use(
    tmp_path: Path, make_backend: MakeBackend, changed: dict[str, Any]
) -> None:
    """Two claims would have one partition."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        await prepared(tmp_path, node, OF_CLAIM)
        new = made_anew(node, OF_CLAIM, **changed)
        await node.work()
        assert node.status(new).get("uuid") is None
        assert [*node.context.journal.partitions()] == ["p1"]


async def test_a_claim_that_is_being_prepared_keeps_the_former_object_until_it_is(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """Its prepare call writes the former UID once more: the partition would have no user then, and be removed with its object."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        await prepared(tmp_path, node, OF_CLAIM)
        (claim,) = node.context.journal.claims()
        node.context.journal.put_claim(replace(claim, step=ClaimStep.INJECTED))
        new = made_anew(node, OF_CLAIM)
        await node.work()
        assert [*node.context.journal.partitions()] == ["p1"]
        node.context.journal.put_claim(claim)
        await node.work()
        assert (node.status(new)["phase"], node.status(new)["preparedBy"]) == ("Ready", [REF.uid])


async def test_kubelet_prepares_a_claim_once_more_whose_object_is_being_deleted(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The object stays until the claim is unprepared, and so does the partition: a container that starts anew may use it."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        preparing = await prepared(tmp_path, node, OF_CLAIM)
        node.delete(node.items[f"n-{DEVICE}"])
        await node.work()
        await preparing.prepare(REF)
        await preparing.unprepare(REF)
        await node.work()
        assert (await node.live(), node.items) == ((), {})
