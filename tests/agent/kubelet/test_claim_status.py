"""What the agent says of a claim's devices in the claim's status, with exactly the rights of the manifests."""

from typing import Any

import pytest

from apportion.agent.kubelet.claimstatus import DeviceCondition, merge_conditions
from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError
from testbed.eventually import eventually
from tests.agent.kubelet.claimentries import entries, path, states
from tests.agent.places import GPU, H100, NPU
from tests.agent.simulatednode import MakeNode, SimulatedNode, holder

DEVICE = "gpu-0-mig-1g10gb-19-3"


async def test_a_claim_says_that_its_devices_are_ready(
    make_node: MakeNode, namespace: str, control_plane: ControlPlane
) -> None:
    """With the UUID, which a dynamic partition gets only now; a second prepare writes nothing."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        claim = await node.claim(namespace, "mine", DEVICE)
        await node.partition(DEVICE, "1g.10gb", holder=holder(claim))
        assert await node.prepared(claim) == ""
        found = await eventually(lambda: entries(node.api, claim), bool)
        entry = found[f"{GPU}/{DEVICE}"]
        assert (entry["pool"], states(entry)) == (node.name, {"Ready": ("True", "Prepared")})
        assert entry["data"] == {"uuid": node.hardware()[0]["uuid"]}
        await node.prepare(claim)
        # What it would have written about the first claim comes before what it writes about the second.
        other = await node.claim(namespace, "other", "gpu-1")
        assert await node.prepared(other) == ""
        await eventually(lambda: entries(node.api, other), bool)

        async def patches() -> int:
            return sum(
                (each.verb, each.namespace, each.name) == ("patch", namespace, "mine")
                and each.user.endswith(":apportion-agent")
                for each in control_plane.audited()
            )

        # The log of requests has one a moment after its object can be read.
        assert await eventually(patches, bool) == 1


async def test_a_prepare_that_fails_says_why_in_the_claim(make_node: MakeNode, namespace: str) -> None:
    """Kubelet reports it on the pod; the agent reports it on the claim."""
    async with make_node(cards=[H100]) as node, node.agent():
        first = await node.claim(namespace, "first", "gpu-0")
        assert await node.prepared(first) == ""
        second = await node.claim(namespace, "second", "gpu-0")
        assert "is held by" in await node.prepared(second)
        found = await eventually(lambda: entries(node.api, second), bool)
        entry = found[f"{GPU}/gpu-0"]
        assert states(entry) == {"Ready": ("False", "NotReady")}
        assert f"{namespace}/first" in entry["conditions"][0]["message"]
        await node.unprepare(first)
        assert await node.prepared(second) == ""
        await eventually(
            lambda: entries(node.api, second),
            lambda now: states(now[f"{GPU}/gpu-0"]) == {"Ready": ("True", "Prepared")},
        )


async def test_the_entries_of_other_drivers_stay(make_node: MakeNode, namespace: str) -> None:
    """Each driver owns its own; a deallocation takes all of them."""
    async with make_node(cards=[H100, {"model": "910B4"}]) as node, node.agent():
        claim = await node.claim(namespace, "mixed", "gpu-0")
        # A second driver's result beside ours, as a claim over two drivers has it.
        await node.deallocate(claim)
        claim = await _allocate_both(node, claim)
        for driver in (GPU, NPU):
            answer = await node.prepare(claim, driver=driver)
            assert answer[claim["metadata"]["uid"]].error == ""
        found = await eventually(lambda: entries(node.api, claim), lambda now: len(now) == 2)
        assert set(found) == {f"{GPU}/gpu-0", f"{NPU}/npu-0"}
        await node.deallocate(claim)
        assert await entries(node.api, claim) == {}


async def _allocate_both(node: SimulatedNode, claim: Json) -> Json:
    meta = claim["metadata"]
    await node.api.delete(path(claim))
    requests = [{"name": f"r{n}", "exactly": {"deviceClassName": "any"}} for n in range(2)]
    body = {"metadata": {"name": f"{meta['name']}-2"}, "spec": {"devices": {"requests": requests}}}
    made = await node.api.create(path(claim).rpartition("/")[0], body)
    results = [
        {"request": f"r{n}", "driver": driver, "pool": node.name, "device": device}
        for n, (driver, device) in enumerate(((GPU, "gpu-0"), (NPU, "npu-0")))
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node.name]}]
    status = {
        "allocation": {
            "devices": {"results": results},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"apiGroup": "example.com", "resource": "tests", "name": "t", "uid": "t"}],
    }
    return await node.api.patch(f"{path(made)}/status", {"status": status})


async def test_a_sick_card_shows_in_the_claims_that_use_it(make_node: MakeNode, namespace: str) -> None:
    """And that it is well again; claims on other cards say nothing."""
    async with make_node(cards=[H100 | {"count": 2}]) as node, node.agent():
        claims = [await node.claim(namespace, f"uses-{n}", f"gpu-{n}") for n in range(2)]
        for claim in claims:
            assert await node.prepared(claim) == ""
        for lost, wanted in ((["gpu-0"], ("False", "Lost")), ([], ("True", "Healthy"))):
            with node.switchboard() as state:
                state["faults"]["lost"] = lost
            found = await eventually(
                lambda: entries(node.api, claims[0]),
                lambda now, wanted=wanted: (
                    f"{GPU}/gpu-0" in now and states(now[f"{GPU}/gpu-0"]).get("Healthy") == wanted
                ),
            )
            assert states(found[f"{GPU}/gpu-0"])["Ready"] == ("True", "Prepared")
        assert "Healthy" not in states((await entries(node.api, claims[1]))[f"{GPU}/gpu-1"])


@pytest.mark.parametrize("subject", ["allocation", "another driver", "another node"])
async def test_an_agent_reaches_no_further_than_its_own_devices(
    make_node: MakeNode, namespace: str, control_plane: ControlPlane, subject: str
) -> None:
    """The rights are for its drivers' entries in claims on its own node; the API server refuses anything else."""
    async with make_node(cards=[H100]) as node, make_node(cards=[H100]) as other:
        claim = await node.claim(namespace, "target", "gpu-0", driver="x.dev" if "driver" in subject else GPU)
        rights = (other if subject == "another node" else node).options.kubeconfig
        assert rights is not None
        driver = "x.dev" if subject == "another driver" else GPU
        entry = {"driver": driver, "pool": node.name, "device": "gpu-0"}
        status: dict[str, Any] = {"devices": [entry]}
        if subject == "allocation":
            status = {"allocation": None, "reservedFor": None}
        async with Api.of(rights) as agent:
            with pytest.raises(ApiError) as refused:
                await agent.patch(f"{path(claim)}/status", {"status": status})
        assert (
            "resourceclaims/binding" if subject == "allocation" else "resourceclaims/driver"
        ) in refused.value.message


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    """A new message is no transition; entries and conditions of others stay as they are."""
    theirs = {"driver": "x", "pool": "p", "device": "gpu-0", "conditions": []}
    old = {"type": "Ready", "status": "False", "reason": "Busy", "message": "a", "lastTransitionTime": "t0"}
    kept = {"type": "Own", "status": "True", "reason": "R", "message": "", "lastTransitionTime": "t0"}
    ours = {"driver": GPU, "pool": "p", "device": "gpu-0", "conditions": [kept, old]}

    def news(*, holds: bool) -> DeviceCondition:
        return DeviceCondition("gpu-0", "Ready", holds, "Now", "b")

    same = merge_conditions([theirs, ours], GPU, "p", [news(holds=False)], "t1")
    turned = merge_conditions([theirs, ours], GPU, "p", [news(holds=True)], "t1")
    assert [entry["conditions"][-1]["lastTransitionTime"] for entry in (same[1], turned[1])] == ["t0", "t1"]
    assert (same[0], same[1]["conditions"][0]) == (theirs, kept)
