"""For whom nothing is reserved: claims that would not get the devices either once these are free, and those that wait behind the others for a while."""

import asyncio

import pytest
from structlog.testing import capture_logs

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.demands.waiting import WaitingDemand
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT
from tests.scheduling.podgroups import member
from tests.scheduling.queued import fleet
from tests.scheduling.reserving import full
from tests.scheduling.test_configuration import shared_gpus

SHARE = {"requests": {"memory": "60Gi"}}


def waits_for_both(world: ObservedCluster, *, group: bool) -> None:
    """Let a pod, by itself or of a group, wait for shares of two GPUs under MPS, which no agent would prepare for one claim."""
    world.policy(queue={"mostReserved": 8})
    world.claim("both", request("gpu", count=2, capacity=SHARE))
    if group:
        member(world, "both", "both", least="1")
    else:
        world.pod("both", "both", gates=[GATE])


def younger(world: ObservedCluster, **wanted: Json) -> None:
    """Let a pod that comes now wait for one device, or a share."""
    world.claim("later", request("gpu", **wanted), creationTimestamp=world.time())
    raw = world.pod("later", "later", gates=[GATE])
    raw["metadata"]["creationTimestamp"] = world.time()
    world.see(PODS, raw)


def passes(world: ObservedCluster, cycle: Cycle, count: int = 3) -> None:
    """Make passes, 40 seconds apart."""
    for _ in range(count):
        cycle.once()
        world.clock.now += 40


@pytest.mark.parametrize("group", [False, True])
@pytest.mark.parametrize("busy", [False, True])
async def test_nothing_is_reserved_of_which_no_agent_would_prepare_a_claim(
    silent: Client, *, busy: bool, group: bool
) -> None:
    """It waits for ever, and so would others. `busy`: one of the GPUs has somebody else for now, so that the claim is refused for devices."""
    world = shared_gpus(cores=True)
    if busy:
        world.allocate(world.claim("runs"), "a", "gpu-0")
        world.pod("runs", "runs", spec={"nodeName": "a"})
    waits_for_both(world, group=group)
    cycle = world.cycle(silent)
    passes(world, cycle)
    younger(world, capacity=SHARE)
    passes(world, cycle)
    assert "later" in world.places()
    assert "both" not in world.places()


@pytest.mark.parametrize("group", [False, True])
async def test_other_devices_are_reserved_for_a_claim_where_no_agent_would_prepare_the_first(
    silent: Client, *, group: bool
) -> None:
    """GPUs that nobody shares, though both of these have to become free, and of those that are shared one."""
    world = shared_gpus(cores=True)
    world.node("b")
    whole = [{"name": f"whole-{n}", "capacity": {"memory": {"value": "80Gi"}}} for n in range(2)]
    world.slice("b", "b-devices", {"devices": whole}, 1)
    for name, node, device in (("x", "a", "gpu-0"), ("y", "b", "whole-0"), ("z", "b", "whole-1")):
        world.allocate(world.claim(name), node, device)
        world.pod(name, name, spec={"nodeName": node})
    waits_for_both(world, group=group)
    cycle = world.cycle(silent)
    passes(world, cycle)
    reserved = [result.device.name for each in cycle.reserved for result in each.plan.results]
    assert reserved == ["whole-0", "whole-1"]


async def test_a_reservation_ends_where_deciding_breaks_down(
    silent: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would end it: a defect lasts until the operator is another one."""
    made = full(silent, devices=2)
    made.comes("large", 2)
    made.passes()
    assert made.reserved.keys() == {"large"}
    take = Decider._take

    def breaks_down(self: Decider, demand: WaitingDemand, *more: object) -> int:
        if demand.claims[0].name == "large":
            raise ZeroDivisionError("a defect")
        return take(self, demand, *more)  # type: ignore[arg-type] # as they came

    monkeypatch.setattr(Decider, "_take", breaks_down)
    made.comes("small")
    made.ends("old-0", "old-1")
    with capture_logs() as logs:
        started = [name for _ in range(3) for name in made.passes(40.0)]
    assert "demand.defect" in [line["event"] for line in logs]
    assert started == ["small"]


@pytest.mark.parametrize("group", [False, True])
async def test_what_was_given_back_for_others_is_not_reserved_for_who_had_it(
    silent: Client, *, group: bool
) -> None:
    """It came first, but no scheduler takes its pod, so it rests. They would have waited for as long as it does, and then again."""
    world = fleet({"n1": ("h100", 1)})
    kept = world.allocate(world.claim("kept"), "n1", "gpu-0")
    if group:
        member(world, "stuck", "kept", least="1", gates=())
    else:
        world.pod("stuck", "kept")
    cycle = world.cycle(silent)
    cycle.once()
    world.clock.now += UNUSED_TIMEOUT - 5
    younger(world)
    cycle.once()
    world.clock.now += 10
    cycle.once()
    assert cycle._exclusions.rests(kept["metadata"]["uid"]) > 0
    await asyncio.sleep(0.1)  # until the write has begun
    kept.pop("status")
    world.see(CLAIMS, kept)
    cycle.once()
    cycle.once()
    assert world.places() == {"later": "n1"}


async def test_a_reservation_ends_when_its_claim_begins_to_rest(silent: Client) -> None:
    """Others are served meanwhile. Afterwards devices are reserved for it as before."""
    made = full(silent, devices=2)
    made.comes("large", 2)
    made.passes()
    made.comes("small")
    made.ends("old-0")
    assert made.passes() == []
    made.cycle._exclusions.rest(made.claim_of("large")["metadata"]["uid"], 60.0)
    assert [name for _ in range(2) for name in made.passes()] == ["small"]
    assert made.reserved == {}
    made.world.clock.now += 60.0
    made.passes()
    assert made.reserved.keys() == {"large"}
