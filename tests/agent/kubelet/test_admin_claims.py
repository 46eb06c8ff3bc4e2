"""Claims with admin access on the node: they have what others have, and nothing is cut for them."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.kubelet.claimdevices import why_unusable
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.nodetools import NodeTools
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.agent.settings import AgentOptions
from apportion.cluster.client import Object
from apportion.errors import NotReady
from tests.agent.kubelet.filesbelow import REF
from tests.agent.lifecycle.onecard import DEVICE, PLACE, one_card
from tests.agent.places import GPU, H100, MakeBackend

NOTHING_IS_CUT = f"{DEVICE} is not cut; a claim with admin access has what others have"


def admin_claim() -> Object:
    """Return an allocated claim that looks at a partition."""
    result = {"request": "r0", "driver": GPU, "pool": "n", "device": DEVICE, "adminAccess": True}
    return {
        "metadata": {"namespace": REF.namespace, "name": REF.name, "uid": REF.uid},
        "spec": {"devices": {"requests": [{"name": "r0", "exactly": {"deviceClassName": "any"}}]}},
        "status": {
            "allocation": {"devices": {"results": [result]}},
            "reservedFor": [{"resource": "pods", "name": "p", "uid": "p"}],
        },
    }


async def test_nothing_is_cut_by_hand_for_a_claim_with_admin_access(tmp_path: Path) -> None:
    """Nobody would own the partition, and other claims could not have its room."""
    simulation, boot = tmp_path / "node.yaml", tmp_path / "boot"
    simulation.write_text(yaml.safe_dump({"cards": [H100]}), encoding="utf-8")
    boot.write_text("boot", encoding="utf-8")
    options = AgentOptions(
        "n", backend="simulated", simulation=simulation, cdi_dir=tmp_path / "cdi", state_dir=tmp_path,
        plugins_dir=tmp_path / "p", run_dir=tmp_path / "run", boot_id=boot,
    )  # fmt: skip
    tools = NodeTools(options)
    with pytest.raises(NotReady, match=NOTHING_IS_CUT):
        await tools.prepare(admin_claim())
    found = await tools.partitions()
    assert (found["partitions"], found["claims"]) == ([], [])


async def test_a_partition_without_an_owner_keeps_its_place_while_it_is_looked_at(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A pod with the whole card would be bound, and wait on the node for a partition that goes when the monitor ends."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        published: list[None] = []
        held = HeldClaims(node.context)
        held.looked.set()
        inventory = InventoryBuilder(node.context, held)
        node.context.slices_changed = lambda: published.append(None)
        holder = {"kind": "ResourceClaim", "namespace": "default", "name": "c", "uid": "owner"}
        item = node.partition("p", origin="Claim", holder=holder)
        await node.work()
        row = node.prepared("monitor", DEVICE)
        bound = tuple(replace(each, partition="p", admin=True) for each in row.devices)
        node.context.journal.put_claim(replace(row, devices=bound))
        await node.work()
        assert (await inventory.build()).occupied == ()
        assert published == []

        item = node.items[item["metadata"]["name"]]
        spec = {key: value for key, value in item["spec"].items() if key != "holder"}
        node.show(item | {"spec": spec, "metadata": item["metadata"] | {"generation": 2}})
        await node.work()
        assert (await inventory.build()).occupied == (PLACE,)
        assert len(published) == 1

        node.context.journal.drop_claim("monitor", GPU)
        await node.work()
        assert (await inventory.build()).occupied == ()
        assert len(published) == 2


def test_the_answer_to_kubelet_says_that_nothing_is_cut_for_a_claim_with_admin_access() -> None:
    """Nobody makes a Partition for it; "yet" would say that one comes."""
    device = ClaimDevice(DEVICE, "gpu-0", "n", ("r0",), "x", admin=True)
    row = ClaimRow(REF.uid, GPU, REF.namespace, REF.name, ClaimStep.PREPARING, (device,))
    assert NOTHING_IS_CUT in why_unusable(None, row, device)
    assert "yet" in why_unusable(None, row, replace(device, admin=False))
