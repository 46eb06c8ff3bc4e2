"""Pods to evict are searched in steps, over several passes: others run in between, and nobody goes for who waits no more."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Ticking
from tests.observedcluster import request
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import GROUP, SteeredEvictor, ends
from tests.scheduling.longeststep import longest_step
from tests.scheduling.test_closest_in_steps import fleet_of, node

pytestmark = pytest.mark.slow
CARDS, PLACES = 2, 7
"""Of a node: cards, and the smallest partitions of a card."""
MOST_PASSES = 100


class Full:
    """Nodes all partitions of which pods of low priority have, and one node without devices."""

    def __init__(self, client: Client, nodes: int) -> None:
        self.world = fleet_of(nodes)
        self.world.clock = Ticking(self.world.clock.now)
        node(self.world, "idle")
        self.world.policy(
            classes=["mig"],
            preemption={"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"},
            queue={"mostReserved": 0},
        )
        for number in range(nodes):
            for place in range(CARDS * PLACES):
                self._holds(f"low-{number}-{place}", f"n{number}", *divmod(place, PLACES))
        self.evictor = SteeredEvictor(self.world)
        self.cycle: Cycle = self.world.cycle(client, evictor=self.evictor)
        # What is found out once counts for no step.
        self.waits("before", 1, priority=-9)
        self.cycle.once()
        ends(self.world, "before")

    def _holds(self, name: str, node: str, card: int, place: int, team: str = "low") -> None:
        claim = self.world.claim(name, request("mig"), namespace=team)
        pod = self.world.pod(
            name, name, spec={"nodeName": node, "priority": -(place % 3) - 1}, namespace=team
        )
        user = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        stamp = self.world.time(-3600.0 - place)
        device = f"gpu-{card}-mig-1g10gb-19-{place}"
        self.world.allocate(claim, node, device, timestamp=stamp, reservedFor=[user])

    def waits(
        self,
        name: str,
        count: int,
        *,
        priority: int = 1,
        team: str = "team",
        group: int = 0,
        cpu: str = "1",
    ) -> None:
        """Let a pod wait for so many partitions; `group`: the least number of its group."""
        self.world.claim(name, request("mig", count=count), namespace=team)
        container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
        spec = {"priority": priority, "containers": [container]}
        pod = self.world.pod(name, name, gates=(GATE,), spec=spec, namespace=team)
        if group:
            pod["metadata"] |= {
                "labels": {GROUP: "g"},
                "annotations": {f"{GROUP}-min-count": str(group)},
            }
            self.world.see(PODS, pod)

    def passes(self) -> Iterator[int]:
        """Make passes as the operator does; yields how many have been made."""
        number = 0
        while True:
            for work in self.cycle._pass(longest=LONGEST, evaluates=False):
                if work is not None:
                    work()
            number += 1
            yield number

    async def evicted(self) -> list[str]:
        """Return who was evicted."""
        for _ in range(40):
            await asyncio.sleep(0)
        return self.evictor.evicted


@pytest.mark.parametrize("members", [1, 3], ids=["one pod", "group"])
async def test_no_step_grows_with_the_nodes_that_are_searched(unanswered: Client, members: int) -> None:
    """Half of a node's partitions for each pod."""
    longest = []
    for nodes in (4, 12):
        made = Full(unanswered, nodes)
        for number in range(members):
            made.waits(f"high-{number}", PLACES, group=members if members > 1 else 0)
        made.world.clock.now += 2.0
        longest.append(longest_step(made.cycle))
        assert len(await made.evicted()) == members * PLACES
    assert longest[1] < 1.5 * longest[0], longest


@pytest.mark.parametrize("members", [1, 3], ids=["one pod", "group"])
async def test_others_are_served_while_victims_are_searched(unanswered: Client, members: int) -> None:
    """A pod that comes in the meantime, for what is free elsewhere, has it in the next pass; the search goes on where it stopped."""
    made = Full(unanswered, 12)
    for number in range(members):
        made.waits(f"high-{number}", PLACES, group=members if members > 1 else 0)
    made.world.clock.now += 2.0
    passes = made.passes()
    next(passes)
    assert made.cycle.preemptions.go_on
    ends(made.world, "low-0-0")
    made.waits("other", 1, team="others")
    next(passes)
    assert "other" in made.world.places()
    while made.cycle.preemptions.go_on:
        assert next(passes) < MOST_PASSES
    assert await made.evicted()


async def test_nobody_goes_for_a_pod_that_was_deleted_while_victims_were_searched(unanswered: Client) -> None:
    """What is found is true when the search ends, or nothing is done."""
    made = Full(unanswered, 12)
    made.waits("high", PLACES)
    made.world.clock.now += 2.0
    passes = made.passes()
    next(passes)
    assert made.cycle.preemptions.go_on
    ends(made.world, "high")
    while made.cycle.preemptions.go_on:
        assert next(passes) < MOST_PASSES
    assert await made.evicted() == []


async def test_no_victim_is_taken_for_what_it_was_before_its_claim_went_to_another_pod(
    unanswered: Client,
) -> None:
    """Pods of low priority end while victims are searched, and pods that stay have their devices at once: what these have is charged."""
    made = Full(unanswered, 12)
    made.waits("high", 2 * PLACES)
    made.world.clock.now += 2.0
    passes = made.passes()
    next(passes)
    number = 0
    while made.cycle.preemptions.go_on:
        ends(made.world, f"low-{number}-0")
        made._holds(f"stays-{number}", f"n{number}", 0, 0)
        number += 1
        assert next(passes) < MOST_PASSES
    held = made.world.snapshot.state.held()
    live = {claim.uid for claim in made.world.snapshot.claims.values() if claim.allocation is not None}
    assert {key for key in held if ":" not in key and " " not in key} <= live
    assert len(await made.evicted()) == 2 * PLACES


@pytest.mark.parametrize("members", [1, 2], ids=["one pod", "group"])
async def test_nobody_goes_who_became_guaranteed_while_victims_were_searched(
    unanswered: Client, members: int
) -> None:
    """Four pods are beyond what is guaranteed; four others of the same quota end, and a team without a quota has their devices at once."""
    made = Full(unanswered, 12)
    resource = {"name": "migs", "deviceClass": "mig"}
    for team, guaranteed in (("low", 12 * CARDS * PLACES - 4), ("team", 0)):
        namespace(made.world, team, team=team)
        quota(made.world, team, resource | {"guaranteed": guaranteed}, cohort="x", reclaims=True)
    for number in range(members):
        made.waits(f"high-{number}", 4 // members, group=members if members > 1 else 0)
    made.world.clock.now += 2.0
    passes = made.passes()
    next(passes)
    assert made.cycle.preemptions.go_on
    for number in range(8, 12):
        ends(made.world, f"low-{number}-2")
        made._holds(f"others-{number}", f"n{number}", 0, 2, "others")
    while made.cycle.preemptions.go_on:
        assert next(passes) < MOST_PASSES
    assert await made.evicted() == []


def a_pod_of_high_priority_shares_a_claim(made: Full, node: str) -> None:
    """Let it have the devices of one of the pods that would go."""
    spec = {"nodeName": node, "priority": 9}
    made.world.pod(f"shares-{node}", f"low-{node[1:]}-0", spec=spec, namespace="low")


def a_pod_without_devices_takes_the_cpu(made: Full, node: str) -> None:
    """Leave less of the node's 64 cores than a pod needs."""
    container = {"name": "main", "resources": {"requests": {"cpu": "50"}}}
    made.world.pod(f"cpu-{node}", spec={"nodeName": node, "priority": 9, "containers": [container]})


def the_node_is_cordoned(made: Full, name: str) -> None:
    """Let no pod go there any more."""
    node(made.world, name, unschedulable=True)


@pytest.mark.parametrize("members", [1, 2], ids=["one pod", "group"])
@pytest.mark.parametrize(
    "changes",
    [a_pod_of_high_priority_shares_a_claim, a_pod_without_devices_takes_the_cpu, the_node_is_cordoned],
)
async def test_nobody_goes_in_vain_where_something_changed_while_victims_were_searched(
    unanswered: Client, members: int, changes: Callable[[Full, str], None]
) -> None:
    """All pods of a node would have to go; devices are as they were, and the pods that wait could not start there all the same."""
    made = Full(unanswered, 12)
    for number in range(members):
        made.waits(f"high-{number}", PLACES * CARDS, group=members if members > 1 else 0, cpu="16")
    made.world.clock.now += 2.0
    passes = made.passes()
    while next(passes) < 4:
        assert made.cycle.preemptions.go_on
    for number in range(12):
        changes(made, f"n{number}")
    while made.cycle.preemptions.go_on:
        assert next(passes) < MOST_PASSES
    assert await made.evicted() == []


async def test_others_are_served_while_other_victims_are_searched(unanswered: Client) -> None:
    """Some of those that were chosen may not go: one pass went on until others were found, a second for each pod for which some stay."""
    made = Full(unanswered, 12)
    made.evictor.protected_late = [f"low-{number}-{place}" for number in range(6) for place in range(14)]
    made.waits("high", PLACES)
    made.world.clock.now += 2.0
    passes = made.passes()
    while not made.cycle.preemptions.active:
        assert next(passes) < MOST_PASSES
    assert await made.evicted() == []
    next(passes)
    assert made.cycle.preemptions.go_on
    [kept] = made.cycle.preemptions.active
    assert f"DeviceHold {kept.reservation.name}" in made.world.snapshot.state.held()
    ends(made.world, "low-11-0")
    made.waits("other", 1, team="others")
    next(passes)
    assert "other" in made.world.places()
    while made.cycle.preemptions.go_on or not await made.evicted():
        assert next(passes) < MOST_PASSES
    assert len(made.evictor.evicted) == PLACES
