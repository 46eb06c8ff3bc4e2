"""Many wait for whom pods have to go: they are served within seconds, and one that finds nobody takes no other's turn."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import QUOTAS
from apportion.dra.pod import Pod
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.preemption.evictor import Refused
from apportion.scheduling.preemption.preemptors import Preemptors
from tests.clock import Ticking
from tests.quota.tenants import namespace, quota
from tests.scheduling.evicting import (
    SEARCHED,
    SteeredEvictor,
    Trial,
    cohort,
    ends,
    holds,
    joins,
    trial,
    waits,
)
from tests.scheduling.longeststep import longest_step

GPUS, NODES = 8, 5


def full(client: Client, evictor: type[SteeredEvictor] = SteeredEvictor) -> Trial:
    """Return five nodes on which each GPU has a pod of low priority."""
    made = trial(client, GPUS, nodes=NODES)
    steered = evictor(made.world)
    made = Trial(made.world, made.world.cycle(client, evictor=steered), steered)
    for node in range(NODES):
        for gpu in range(GPUS):
            holds(made.world, f"low-{node}-{gpu}", gpu, priority=-1, node=f"n{node + 1}", team=f"low-{gpu}")
    return made


async def test_forty_pods_are_served_within_seconds(unanswered: Client) -> None:
    """One pod went in a second, in the whole cluster: a team with a thousand pods waited for a quarter of an hour."""
    made = full(unanswered)
    for number in range(GPUS * NODES):
        waits(made.world, f"high-{number}", 1, priority=5)
    await made.passes(4)
    assert len(made.evicted) == len({*made.evicted}) == GPUS * NODES
    ends(made.world, *made.evicted)
    await made.passes(1)
    assert all(made.world.places()[f"high-{number}"] for number in range(GPUS * NODES))


async def test_guarantees_are_taken_back_within_seconds(unanswered: Client) -> None:
    """Twenty teams, two GPUs guaranteed to each, of a team that has borrowed all of them; it keeps what is guaranteed to it."""
    made = trial(unanswered, GPUS, nodes=NODES, mode="Never")
    namespace(made.world, "borrower", team="borrower")
    quota(made.world, "borrower", guaranteed=4, cohort="x", reclaims=True)
    for number in range(GPUS * NODES):
        holds(
            made.world,
            f"b-{number}",
            number % GPUS,
            node=f"n{number // GPUS + 1}",
            priority=9,
            team="borrower",
        )
    for team in range(20):
        namespace(made.world, f"team-{team}", team=f"team-{team}")
        quota(made.world, f"team-{team}", guaranteed=2, cohort="x", reclaims=True)
        for number in range(2):
            waits(made.world, f"pod-{team}-{number}", 1, team=f"team-{team}")
    await made.passes(4)
    assert len(made.evicted) == len({*made.evicted}) == GPUS * NODES - 4


@pytest.mark.parametrize(
    ("others", "kinds", "seconds"), [(100, 1, 3), (60, 60, 8)], ids=["alike", "all different"]
)
async def test_who_has_victims_is_not_kept_waiting_by_others_that_have_none(
    unanswered: Client, others: int, kinds: int, seconds: int
) -> None:
    """Many pods of higher priority ask for more GPUs than a node has: one after the other was searched for, each for a second, and once more after fifteen, for ever."""
    made = full(unanswered)
    for number in range(others):
        waits(made.world, f"never-{number}", GPUS + 1 + number % kinds, priority=7)
    waits(made.world, "high", 1, priority=5)
    await made.passes(seconds)
    assert len(made.evicted) == 1


async def test_the_first_of_the_queue_is_searched_for_in_the_next_second(unanswered: Client) -> None:
    """More than a second is enough for have waited longer, with lower priority."""
    made = full(unanswered)
    for number in range(GPUS * NODES - 1):
        waits(made.world, f"waits-{number}", 1, priority=3)
    await made.passes(1)
    assert 0 < len(made.evicted) < GPUS * NODES // 2
    waits(made.world, "urgent", 1, priority=9)
    await made.passes(1)
    assert "urgent" in {each.demand.claims[0].name for each in made.cycle.preemptions.active}


async def test_devices_are_given_in_the_pass_that_sees_them_come_free(unanswered: Client) -> None:
    """What is kept is looked at when its node changes, not only each second."""
    made = full(unanswered)
    waits(made.world, "high", 1, priority=5)
    await made.passes(1)
    assert made.evicted == ["low-0-0"]
    made.cycle.once()
    made.world.node("n4", cpu="63")
    made.cycle.once()
    ends(made.world, "low-0-0")
    made.cycle.once()
    assert made.world.places()["high"] == "n1"


async def test_who_found_nobody_has_another_turn_though_others_come_all_the_time(unanswered: Client) -> None:
    """It is young pods that it could take, and each second sixteen of other kinds come for which there are none."""
    made = full(unanswered)
    made.world.policy(
        "p",
        preemption={"mode": "LowerPriority", "after": "0s", "minRuntime": "3610s"},
        queue={"mostReserved": 0},
    )
    waits(made.world, "high", 1, priority=5)
    for second in range(20):
        for number in range(16):
            waits(made.world, f"never-{second}-{number}", GPUS + 1 + second * 16 + number, priority=7)
        await made.passes(1)
    assert len(made.evicted) == 1


async def test_a_crowd_that_waits_in_vain_takes_a_part_of_the_time(unanswered: Client) -> None:
    """Sixteen found nobody before, as all pods are young: they are searched for after a while, but not for as long as new ones are."""
    made = full(unanswered)
    made.world.policy(
        preemption={"mode": "LowerPriority", "after": "0s", "minRuntime": "2h"}, queue={"mostReserved": 0}
    )
    made.world.clock = clock = Ticking(made.world.clock.now, 0.0)
    made = Trial(made.world, made.world.cycle(unanswered, evictor=made.evictor), made.evictor)
    for number in range(16):
        waits(made.world, f"never-{number}", 1 + number % 8, priority=number // 8)
    await made.passes(2)
    spent = []
    for wait in (2.0, 20.0):
        clock.now += wait
        clock.step, began = 0.0012, clock.now
        made.cycle.once()
        spent.append(clock.now - began)
        clock.step = 0.0
    assert 0.05 < spent[1] - spent[0] < 0.22, (
        "all of them take 0.25 s by this clock, with which choosing among them takes 0.1"
    )


async def test_those_for_whom_pods_may_go_are_chosen_in_steps(unanswered: Client) -> None:
    """Ten thousand that wait in vain, each of another shape, took a tenth of a second in one step, each second."""
    made = full(unanswered)
    young = {"mode": "LowerPriority", "after": "0s", "minRuntime": "2h"}
    made.world.policy(preemption=young, queue={"mostReserved": 0})
    for number in range(5 * AT_ONCE):
        waits(made.world, f"never-{number}", 1, priority=number, team=f"team-{number}")
    await made.passes(2)
    made.world.clock.now += SEARCHED
    assert 0 < longest_step(made.cycle, only=Preemptors.may_evict) < 2 * AT_ONCE


@dataclass
class Noting(SteeredEvictor):
    """Notes what is asked, and takes a moment to answer."""

    asked: list[str] = field(default_factory=list)

    async def refusal(self, pods: Sequence[Pod]) -> Refused | None:
        self.asked.append(f"dry {pods[0].namespace}")
        await asyncio.sleep(0)
        return await super().refusal(pods)

    async def evict(self, pod: Pod) -> Refused | None:
        await asyncio.sleep(0)
        self.asked.append(f"evict {pod.namespace}")
        return await super().evict(pod)


async def test_pods_that_one_budget_may_protect_are_asked_for_one_preemption_after_the_other(
    unanswered: Client,
) -> None:
    """The dry run of the second is asked once the first is evicted: before, it would promise what the budget allows once to both. Others are asked for meanwhile."""
    made = full(unanswered, Noting)
    for number in range(10):
        waits(made.world, f"high-{number}", 1, priority=5)
    await made.passes(8)
    assert isinstance(made.evictor, Noting)
    assert len(made.evicted) == 10
    for team in range(GPUS):
        own = [each.partition(" ")[0] for each in made.evictor.asked if each.endswith(f"low-{team}")]
        assert own == ["dry", "evict"] * (len(own) // 2)
    first = made.evictor.asked.index(next(each for each in made.evictor.asked if each.startswith("evict")))
    assert len({*made.evictor.asked[:first]}) > 1, "pods of other namespaces are asked for beside them"


@pytest.mark.parametrize("members", [1, 2], ids=["one pod", "group"])
async def test_all_nodes_are_looked_at_before_one_rests(unanswered: Client, members: int) -> None:
    """Two hundred nodes, of which a search looks at 32, or 64 for a group: it rested for 15 s after each of these."""
    made = trial(unanswered, 1, nodes=200)
    names = sorted(f"n{number + 1}" for number in range(200))
    for name in names:
        holds(made.world, f"has-{name}", 0, priority=-1 if name in names[-members:] else 9, node=name)
    if members > 1:
        joins(made.world, "a", "b")
    else:
        waits(made.world, "a", 1, priority=5)
    await made.passes(7)
    assert sorted(made.evicted) == sorted(f"has-{name}" for name in names[-members:])


async def test_searches_know_when_a_quota_is_edited(unanswered: Client) -> None:
    """They share what they read of the quotas: nothing else has changed meanwhile."""
    made = trial(unanswered, 3, mode="Never")
    quotas = cohort(made, "a", "b", a=2, b=3)
    for number in range(3):
        holds(made.world, f"b{number}", number, team="b", age=1000 + number)
    for number in range(2):
        waits(made.world, f"a{number}", 1, team="a")
    await made.passes(4)
    assert made.evicted == []
    quotas["b"]["spec"]["resources"][0]["guaranteed"] = 1
    made.world.see(QUOTAS, quotas["b"])
    await made.passes(16)
    assert made.evicted == ["b0", "b1"]
