"""A group of which enough pods have their devices keeps these, whatever others of it lack; and one that cannot start holds nothing."""

import asyncio

import pytest
from structlog.testing import capture_logs

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.groupmembership import MOST
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import request
from tests.scheduling.givenback import ended, tried
from tests.scheduling.podgroups import gang, member
from tests.scheduling.queued import fleet


async def let_go(cycle: Cycle) -> list[str]:
    """Make a pass; return the pods whose gate it tried to remove."""
    with capture_logs() as logs:
        before = asyncio.all_tasks()
        cycle.once()
        await ended(before)
    return sorted(line["pod"] for line in logs if line["event"] == "pod.not_ungated")


async def test_enough_pods_of_a_group_keep_their_devices_while_others_find_none(unanswered: Client) -> None:
    """They would be given back, as long as their partitions are cut, whenever the third is refused; and their gates would go in the same pass."""
    world = fleet({"n1": ("h100", 2)})
    for number in range(3):
        claim = world.claim(f"c{number}", request("gpu"))
        if number < 2:
            world.allocate(claim, "n1", f"gpu-{number}")
        member(world, f"p{number}", f"c{number}", least="2")
    cycle = world.cycle(unanswered)

    assert await tried(cycle) == []
    assert await tried(cycle) == []
    world.clock.now += 1  # the pause after the removal that nobody answered
    assert await let_go(cycle) == ["team/p0", "team/p1"]


async def test_too_few_pods_of_a_group_give_their_devices_back_when_another_is_refused(
    unanswered: Client,
) -> None:
    """Others may use them."""
    world = gang(2, 1, count=3)
    claim = world.snapshot.claim("team", "g-c0")
    assert claim is not None
    raw = world.claim("g-c0", request("gpu", count=3))
    world.allocate(raw, "n0", "gpu-0", "gpu-1", "gpu-2")

    assert await tried(world.cycle(unanswered)) == ["g-c0"]


async def test_no_pod_loses_its_gate_while_its_devices_are_given_back(silent: Client) -> None:
    """The group becomes whole while they are: kube-scheduler would start the others without this pod."""
    world = fleet({"n1": ("h100", 2)})
    world.allocate(world.claim("c0"), "n1", "gpu-0")
    member(world, "worker", "c0")
    cycle = world.cycle(silent)
    cycle.once()
    await asyncio.sleep(0)  # the write has begun
    member(world, "launcher")

    with capture_logs() as logs:
        cycle.once()
        await asyncio.sleep(0)
    assert [line for line in logs if line["event"].startswith("pod.")] == []
    assert not any(GATE not in pod.gates for pod in world.snapshot.pods.values())


@pytest.mark.parametrize("wanted", ["misspelt", "gpu,theirs"])
async def test_a_group_with_a_claim_that_nobody_can_allocate_gets_nothing(
    unanswered: Client, wanted: str
) -> None:
    """Its gates would stay, and the devices of the others would lie idle until somebody mends the claim."""
    world = fleet({"n1": ("h100", 2)})
    world.device_class("theirs", unmanaged="yes")
    world.claim("c0", request("gpu"))
    world.claim("c1", *map(request, wanted.split(",")))
    member(world, "p0", "c0")
    member(world, "p1", "c1")
    cycle = world.cycle(unanswered)

    cycle.once()

    assert world.places() == {}


async def test_who_has_ended_leaves_its_place_in_an_elastic_group_to_another(unanswered: Client) -> None:
    """A Job keeps its pods; those that wait would do so for as long as it is there."""
    world = fleet({"n1": ("h100", 4)})
    runs = world.allocate(world.claim("c0", request("gpu")), "n1", "gpu-0")
    world.claim("c1", request("gpu"))
    pods = [member(world, f"p{number}", f"c{number}", least="1", said={MOST: "1"}) for number in range(2)]
    pods[0]["spec"] |= {"nodeName": "n1", "schedulingGates": []}
    world.see(PODS, pods[0])
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {"c0": "n1"}

    pods[0]["status"] = {"phase": "Succeeded"}
    world.see(PODS, pods[0])
    del runs["status"]
    world.see(CLAIMS, runs)
    cycle.once()
    assert world.places() == {"c1": "n1"}
