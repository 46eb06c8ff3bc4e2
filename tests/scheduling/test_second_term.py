"""A replica that leads a second time, after another one has acted."""

import asyncio
import math
from itertools import count, islice

import pytest
from structlog.testing import capture_logs

from apportion.api.contract import KEEP_FOR
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import cluster, quota, said, wait
from tests.scheduling.evicting import holds, trial
from tests.scheduling.evicting import waits as waits_for
from tests.scheduling.givenback import UNUSED_TIMEOUT, ended, tried
from tests.scheduling.lookingfornodes import waits
from tests.scheduling.queued import fleet
from tests.scheduling.reserving import DEVICES, Reserving
from tests.scheduling.sliced import between, until

USED = 200
"""Claims that have a device: more than are looked at in one step."""


async def leads_anew(cycle: Cycle) -> list[str]:
    """Act for some passes, as after the lease was gained; return the names of the claims whose allocation it tried to clear."""
    with capture_logs() as logs:
        before, number = asyncio.all_tasks(), cycle._number
        await between(cycle, until(lambda: cycle._number > number + 2, cycle._debouncer.wake))
        await ended(before)
    return [line["claim"].split("/")[1] for line in logs if line["event"] == "claim.not_given_back"]


def unused(**annotations: str) -> ObservedCluster:
    """One device, allocated to a claim that no pod names, and a pod that waits for one."""
    world = fleet({"n1": ("h100", 1)})
    world.allocate(world.claim("kept", annotations=annotations), "n1", "gpu-0")
    world.wait_for("waiting", request("gpu"))
    return world


async def test_a_claim_that_was_used_meanwhile_keeps_its_devices_for_as_long_as_it_says(
    unanswered: Client,
) -> None:
    """It was unused when the lease was lost, and is unused now; a pod used it in between, under another leader."""
    world = unused(**{KEEP_FOR: "10m"})
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.clock.now += 3600
    pod = world.pod("next", "kept", spec={"nodeName": "n1"})
    world.clock.now += 3600
    world.gone(PODS, pod)
    assert await leads_anew(cycle) == []
    world.clock.now += 599
    assert await tried(cycle) == []
    world.clock.now += 2
    assert await tried(cycle) == ["kept"]


async def test_a_claim_that_got_devices_anew_meanwhile_has_the_whole_time_for_its_pod(
    unanswered: Client,
) -> None:
    """The other leader gave it devices a moment ago; no scheduler took the pod when this one led before."""
    world = unused()
    world.pod("stuck", "kept")
    cycle = world.cycle(unanswered)
    assert await tried(cycle) == []
    world.clock.now += 3600
    claim = world.claim("kept")
    world.allocate(claim, "n1", "gpu-0", timestamp=world.time())
    assert await leads_anew(cycle) == []
    world.clock.now += UNUSED_TIMEOUT - 1
    assert await tried(cycle) == []
    world.clock.now += 12
    assert await tried(cycle) == ["kept"]


async def test_pods_go_only_after_a_demand_has_waited_in_this_term(unanswered: Client) -> None:
    """Another leader had served it, and it lost its devices a moment ago: it passed for waiting since it was first seen."""
    made = trial(unanswered, 1, after="30s")
    holds(made.world, "low", 0)
    waits_for(made.world, "high", 1, priority=5)
    await made.passes()
    made.world.clock.now += 3600
    await leads_anew(made.cycle)
    assert made.evicted == []
    made.world.clock.now += 30
    await leads_anew(made.cycle)
    await made.passes()
    assert made.evicted == []
    made.world.clock.now += 30
    await made.passes()
    assert made.evicted == ["low"]


async def test_what_is_reserved_for_a_pod_that_goes_is_free_wherever_the_lease_is_lost(
    unanswered: Client,
) -> None:
    """The pass that learns of it ends between two of its steps; the devices would be nobody's until the restart."""
    for steps in count(1):
        made = Reserving(unanswered, {"n1": DEVICES})
        made.starts("old", 4)
        made.comes("large", DEVICES)
        made.passes()
        assert [*made.reserved] == ["large"]
        made.ends("large", "old")
        lost = made.cycle._pass(longest=math.inf, evaluates=False)
        done = sum(1 for _ in islice(lost, steps))
        del lost
        made.comes("small")
        assert made.passes() + made.passes() == ["small"], f"lost after {done} steps"
        assert made.held() == {}
        if done < steps:
            return


@pytest.mark.slow
async def test_a_quota_counts_what_was_allocated_wherever_the_lease_is_lost(unanswered: Client) -> None:
    """The first pass counts what all claims have, a few at once, and ends between two of its steps."""
    for steps in count(1):
        world = cluster(USED + 2, "team")
        quota(world, "team", limit=USED)
        for number in range(USED):
            world.allocate(world.claim(f"used-{number}"), "n1", f"gpu-{number}")
        wait(world, "team", "more")
        cycle = world.cycle(unanswered)
        lost = cycle._pass(longest=math.inf, evaluates=False)
        done = sum(1 for _ in islice(lost, steps))
        del lost
        cycle.once()
        assert world.places().get("more") is None, f"lost after {done} steps"
        assert said(world, "more", "ExceedsLimit")
        if done < steps:
            return


async def test_autoscalers_see_who_waits_for_a_node_wherever_the_lease_is_lost(unanswered: Client) -> None:
    """What was found of one pod is not forgotten because the pass ends at the next one."""
    for steps in count(1):
        world = fleet({"n1": ("h100", 1)})
        for devices in (2, 3):
            waits(world, f"for-{devices}", request("gpu", count=devices))
        cycle = world.cycle(unanswered)
        cycle.once()
        world.clock.now += PATIENCE
        lost = cycle._pass(longest=math.inf, evaluates=False)
        done = sum(1 for _ in islice(lost, steps))
        del lost
        cycle.once()
        shown = {name for name, reason in world.warned if reason == "ShownToAutoscalers"}
        assert shown == {"for-2", "for-3"}, f"lost after {done} steps"
        if done < steps:
            return
