"""GPUs that serve several claims: what is published, what each claim gets, and that nobody loses what he has."""

import asyncio

import pytest

from testbed.eventually import eventually
from tests.agent.places import H100, NPU
from tests.agent.shares.sharednode import (
    GIB,
    MOST,
    POLICIES,
    entry,
    environment,
    keys,
    label,
    offered,
    policy,
    shared,
    sharing,
)
from tests.agent.simulatednode import MakeNode

PART = "gpu-0-mig-1g10gb-19-0"


async def test_gpus_of_a_selected_node_serve_several_claims_until_the_policy_goes(
    make_node: MakeNode,
) -> None:
    """An equal part for who asks for no memory; what the card could be cut into stays away; afterwards all is as it was."""
    async with make_node(cards=[H100]) as node, node.agent():
        before = (await eventually(node.devices))["gpu-0"]
        async with sharing(node):
            device = await shared(node)
            memory, shares = device["capacity"]["memory"], device["capacity"]["shares"]
            step = {"min": "1Mi", "max": memory["value"], "step": "1Mi"}
            assert memory == {
                "value": before["capacity"]["memory"]["value"],
                "requestPolicy": {"default": "20389Mi", "validRange": step},
            }
            assert (shares["value"], shares["requestPolicy"]["default"]) == (str(MOST), "1")
            assert device["attributes"]["sharing"] == {"string": "TimeSlicing"}
            assert device["consumesCounters"] == before["consumesCounters"]
            assert keys((await node.devices())[PART]) == [("guard", "NoSchedule"), ("shared", "NoSchedule")]
        assert await shared(node, yes=False) == before
        assert keys((await node.devices())[PART]) == [("guard", "NoSchedule")]


async def test_a_label_on_the_node_is_enough(make_node: MakeNode) -> None:
    """The policy was there before: the agent follows its own Node."""
    async with make_node(cards=[H100]) as node, sharing(node):
        await node.api.patch(
            f"/api/v1/nodes/{node.name}", {"metadata": {"labels": {"example.com/node": None}}}
        )
        async with node.agent():
            await shared(node, yes=False)
            await label(node)
            await shared(node)


async def test_two_claims_use_one_gpu_and_each_sees_its_part(make_node: MakeNode, namespace: str) -> None:
    """Ids of their own for CDI, share IDs for kubelet and in the claims' statuses; one goes, the other stays."""
    async with make_node(cards=[H100]) as node, sharing(node), node.agent():
        await shared(node)
        ten = await node.share(namespace, "ten", "gpu-0", "10Gi")
        twenty = await node.share(namespace, "twenty", "gpu-0", "20Gi")
        ids = set()
        for claim, gib in ((ten, 10), (twenty, 20)):
            uid = claim["metadata"]["uid"]
            (result,) = claim["status"]["allocation"]["devices"]["results"]
            (device,) = (await node.prepare(claim))[uid].devices
            assert (device.device_name, device.share_id) == ("gpu-0", result["shareID"])
            ids |= set(device.cdi_device_ids)
            seen = environment(node, claim)
            assert seen["APPORTION_R0"] == "gpu-0"
            assert (seen["APPORTION_R0_SHARE"], seen["APPORTION_R0_MEMORY"]) == (
                result["shareID"],
                str(gib * GIB),
            )

            async def status(name: str = claim["metadata"]["name"]) -> list[dict[str, str]]:
                path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}"
                found: list[dict[str, str]] = (await node.api.get(path))["status"].get("devices", [])
                return found

            (row,) = await eventually(status)
            assert row["shareID"] == result["shareID"]
        assert len(ids) == 2
        assert await node.unprepared(ten) == ""
        assert [name for name in node.cdi() if twenty["metadata"]["uid"] in name]
        assert len(node.cdi()) == 1


async def test_nobody_gets_more_of_a_gpu_than_it_has_whatever_is_allocated(
    make_node: MakeNode, namespace: str
) -> None:
    """The last line of defence: two allocations that do not go together, the same share twice, and a GPU with a share as a whole."""
    async with make_node(cards=[H100]) as node, sharing(node), node.agent():
        await shared(node)
        large = await node.share(namespace, "large", "gpu-0", "60Gi")
        more = await node.share(namespace, "more", "gpu-0", "30Gi")
        whole = await node.claim(namespace, "whole", "gpu-0")
        assert await node.prepared(large) == ""
        refused = await node.prepared(more)
        assert f"ResourceClaim {namespace}/large" in refused
        assert "do not fit" in refused
        assert f"held by ResourceClaim {namespace}/large" in await node.prepared(whole)
        await node.unprepare(large)
        assert await node.prepared(more) == ""


async def test_an_allocated_share_stays_good_when_the_policy_goes(
    make_node: MakeNode, namespace: str
) -> None:
    """Allocated and not yet prepared, or prepared: publishing for one claim takes nothing from those that have a share."""
    async with make_node(cards=[H100]) as node:
        async with sharing(node), node.agent():
            await shared(node)
            first = await node.share(namespace, "first", "gpu-0", "10Gi")
            second = await node.share(namespace, "second", "gpu-0", "10Gi")
            assert await node.prepared(first) == ""
        async with node.agent():
            await shared(node, yes=False)
            assert await node.prepared(second) == ""
            assert await node.prepared(first) == ""
            assert environment(node, second)["APPORTION_R0_MEMORY"] == str(10 * GIB)


async def test_who_gets_a_lost_share_waits_until_it_is_unprepared(
    make_node: MakeNode, namespace: str
) -> None:
    """A pod deleted by force: kubelet still ends its container when its share has been given to the next claim."""
    async with make_node(cards=[H100]) as node, sharing(node, mostClaims=3), node.agent():
        await shared(node)
        forced, other, *later = [
            await node.share(namespace, name, "gpu-0", "10Gi") for name in ("forced", "other", "one", "two")
        ]
        assert await node.prepared(forced) == ""
        assert await node.prepared(other) == ""
        await node.deallocate(forced)
        # There is room for one of them, whichever is first.
        answers = await asyncio.gather(*[node.prepared(claim) for claim in later])
        (refused,) = [answer for answer in answers if answer]
        why = f"gpu-0 serves 3 claims, and 3 have it until ResourceClaim {namespace}/forced is unprepared"
        assert why in refused
        await node.unprepare(forced)
        assert [await node.prepared(claim) for claim in later] == [""] * 2


async def test_who_lowers_the_number_of_claims_takes_nothing_from_those_that_have_a_share(
    make_node: MakeNode, namespace: str
) -> None:
    """Allocated before and prepared afterwards: nobody has lost a share, and so nobody waits."""
    async with make_node(cards=[H100]) as node, sharing(node, mostClaims=3) as path, node.agent():
        await shared(node)
        claims = [await node.share(namespace, name, "gpu-0", "10Gi") for name in ("one", "two", "three")]
        assert await node.prepared(claims[0]) == ""
        await node.api.patch(path, {"spec": {"sharing": [entry(node, mostClaims=1)]}})
        await offered(node, 1)
        assert [await node.prepared(claim) for claim in claims] == [""] * 3


async def test_who_gets_a_lost_share_waits_for_it_also_where_more_share_another_gpu_than_may_by_now(
    make_node: MakeNode, namespace: str
) -> None:
    """Nobody has lost a share of the first GPU, and somebody one of the second."""
    two = [H100 | {"count": 2}]
    async with make_node(cards=two) as node, sharing(node, mostClaims=2) as path, node.agent():
        await shared(node)
        one, forced, other = [
            await node.share(namespace, name, card, "10Gi")
            for name, card in (("one", "gpu-0"), ("forced", "gpu-1"), ("other", "gpu-1"))
        ]
        assert [await node.prepared(claim) for claim in (one, forced, other)] == [""] * 3
        await node.deallocate(forced)
        pair = await node.share(namespace, "pair", ("gpu-0", "gpu-1"), "10Gi")
        await node.api.patch(path, {"spec": {"sharing": [entry(node, mostClaims=1)]}})
        await offered(node, 1)
        assert f"until ResourceClaim {namespace}/forced is unprepared" in await node.prepared(pair)
        await node.unprepare(forced)
        assert await node.prepared(pair) == ""


async def test_what_a_lost_share_still_uses_is_left_out_and_the_others_go_on(
    make_node: MakeNode, namespace: str
) -> None:
    """A pod deleted by force: its memory is not offered, its claim is named for the operator, and the rest of the GPU serves."""
    async with make_node(cards=[H100]) as node, sharing(node, mostClaims=2), node.agent():
        await shared(node)
        forced = await node.share(namespace, "forced", "gpu-0", "30Gi")
        other = await node.share(namespace, "other", "gpu-0", "40Gi")
        assert await node.prepared(forced) == ""
        await node.deallocate(forced)
        found = await eventually(node.devices, lambda devices: ("held", "None") in keys(devices["gpu-0"]))
        device = found["gpu-0"]
        assert device["taints"][1]["value"] == forced["metadata"]["uid"]
        assert (device["capacity"]["memory"]["value"], device["capacity"]["shares"]["value"]) == (
            "50839Mi",
            "1",
        )
        assert (await node.counters("gpu-0"))["memory-slice-0"] == "1"
        assert await node.prepared(other) == ""
        await node.deallocate(other)
        # Nothing is left to give.
        await eventually(node.devices, lambda devices: ("held", "NoSchedule") in keys(devices["gpu-0"]))
        await node.unprepare(forced)
        await node.unprepare(other)
        await eventually(node.devices, lambda devices: keys(devices["gpu-0"]) == [("guard", "NoSchedule")])
        assert (await node.devices())["gpu-0"]["capacity"]["memory"]["value"] == "81559Mi"


async def test_a_gpu_with_partitions_of_others_is_not_shared_and_says_why(make_node: MakeNode) -> None:
    """A layout's or a person's stay as they are; once they are gone, the GPU is shared."""
    foreign = {"card": "gpu-1", "profile": "1g.10gb", "start": 6}
    static = f"{PART}-static"
    layout = {"kind": "PartitionLayout", "name": "nightly", "uid": "layout-uid"}
    async with (
        make_node(cards=[H100 | {"count": 3}], foreign=[foreign]) as node,
        sharing(node),
        node.agent(),
    ):
        place = {"start": 0, "size": 1}
        await node.partition(static, "1g.10gb", holder=layout, origin="Layout", placement=place)
        await node.phase(static, "Ready")
        await shared(node, "gpu-2")
        devices = await eventually(
            node.devices,
            lambda found: static in found and "notShared" in found.get("gpu-0", {}).get("attributes", {}),
        )
        reasons = {name: devices[name]["attributes"]["notShared"]["string"] for name in ("gpu-0", "gpu-1")}
        assert reasons == {"gpu-0": "Layout", "gpu-1": "ForeignPartition"}
        assert [keys(devices[name]) for name in (static, "gpu-0-mig-1g10gb-19-1")] == [
            [("guard", "NoSchedule")]
        ] * 2
        await node.remove(static)
        await shared(node, "gpu-0")


@pytest.mark.parametrize(
    "wanted",
    [{"strategy": "MPS"}, {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}],
    ids=["MPS", "a time slice"],
)
async def test_a_claim_does_not_set_up_a_gpu_that_others_share(
    make_node: MakeNode, namespace: str, wanted: dict[str, object]
) -> None:
    """A daemon or a time slice would hold for all of them: it is refused with the field, and the others run."""
    kind = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "GpuConfig", "sharing": wanted}
    entry = {"source": "FromClaim", "opaque": {"driver": "gpu.apportion.dev", "parameters": kind}}
    async with make_node(cards=[H100]) as node, sharing(node), node.agent():
        await shared(node)
        other = await node.share(namespace, "other", "gpu-0", "10Gi")
        assert await node.prepared(other) == ""
        claim = await node.share(namespace, "asks", "gpu-0", "10Gi", [entry])
        refused = await node.prepared(claim)
        assert "status.allocation.devices.config[0].opaque.parameters.sharing" in refused
        assert "device gpu-0 is shared with other claims" in refused
        assert len(node.cdi()) == 1


async def test_of_two_policies_the_older_one_decides(make_node: MakeNode) -> None:
    """Not the one that is first by name, or that was seen last; when it goes, the other one has its turn."""
    async with make_node(cards=[H100]) as node, sharing(node) as older, node.agent():
        await shared(node)
        name = f"a-{node.name}"
        created = (await node.api.get(older))["metadata"]["creationTimestamp"]
        # Timestamps have seconds.
        made = await eventually(
            lambda: node.api.create(POLICIES, policy(f"{name}-x", entry(node)), dryRun="All"),
            lambda answer: answer["metadata"]["creationTimestamp"] != created,
        )
        assert made
        await node.api.create(POLICIES, policy(name, entry(node, mostClaims=8)))
        try:
            async with node.agent(instance="next"):
                assert (await shared(node))["capacity"]["shares"]["value"] == str(MOST)
            await node.api.delete(older)
            await offered(node, 8)
        finally:
            await node.api.delete(f"{POLICIES}/{name}")


async def test_only_gpus_are_shared(make_node: MakeNode) -> None:
    """NPUs of the same node have no driver that would divide them by claims."""
    async with make_node(cards=[H100, {"model": "910B4"}]) as node, sharing(node), node.agent():
        await shared(node)
        npu = (await eventually(lambda: node.devices(NPU), lambda found: "npu-0" in found))["npu-0"]
        assert "allowMultipleAllocations" not in npu
        assert "notShared" not in npu["attributes"]
