"""A person makes a second Partition for a device that a claim has: the claim goes on with its own one."""

import copy
from pathlib import Path

from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF
from tests.agent.lifecycle.onecard import DEVICE, OneCard, one_card
from tests.agent.places import GPU, H100, MakeBackend
from tests.agent.simulatednode import PARTITIONS, MakeNode, holder

HOLDER = {"kind": "ResourceClaim", "namespace": REF.namespace, "name": REF.name, "uid": REF.uid}


async def test_a_claim_is_prepared_with_its_own_partition(make_node: MakeNode, namespace: str) -> None:
    """The other object has nothing, and its name comes first in lists: no container of the claim could start any more."""
    async with make_node(cards=[H100]) as node:
        async with node.agent():
            claim = await node.claim(namespace, "mine", DEVICE)
            mine = await node.partition(DEVICE, "3g.40gb", holder=holder(claim))
            await node.phase(DEVICE, "Ready")
            further = {
                "apiVersion": "apportion.dev/v1alpha1",
                "kind": "Partition",
                "metadata": {"name": f"{node.name}-a-copy"},
                "spec": {k: v for k, v in mine["spec"].items() if k != "holder"} | {"driver": GPU},
            }
            await node.api.create(PARTITIONS, further)
        async with node.agent(prepare_timeout=3):

            async def error() -> str:
                return await node.prepared(claim)

            await eventually(error, lambda text: text == "", within=20)


def second(node: OneCard, uid: str, **metadata: object) -> None:
    """Write a further Partition for the device, that nobody holds."""
    item = copy.deepcopy(node.items[f"n-{DEVICE}"])
    metadata = item["metadata"] | metadata | {"name": f"n-{uid}", "uid": uid}
    node.show({"metadata": metadata, "spec": {k: v for k, v in item["spec"].items() if k != "holder"}})


async def test_of_several_partitions_a_claim_has_its_own_or_the_one_that_was_cut(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """A claim with admin access has none of its own: it has the one that is there, whichever is listed first, also after a lost journal."""
    backend = make_backend(cards=[H100])
    async with one_card(tmp_path, backend) as node:
        node.partition("mine", holder=HOLDER)
        await node.work()
        second(node, "copy")
        first = {name: node.items[name] for name in ("n-copy", f"n-{DEVICE}")}
    for journal in ("journal", "lost"):
        async with one_card(tmp_path, backend, journal, seen=first) as node:
            found = [node.context.partition_for(DEVICE, claim) for claim in (REF.uid, "looks")]
            assert [each.metadata.uid for each in found if each is not None] == ["mine", "mine"]


async def test_a_partition_that_is_being_deleted_comes_after_one_that_is_not(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """It is about to go, although it was cut; only the claim that holds it has no other one."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        item = node.partition("old", holder=HOLDER)
        await node.work()
        second(node, "new")
        node.delete(item)
        found = [node.context.partition_for(DEVICE, claim) for claim in (REF.uid, "looks")]
        assert [each.metadata.uid for each in found if each is not None] == ["old", "new"]
        assert node.context.partition_for("gpu-0-mig-1g10gb-19-0", REF.uid) is None
