"""Whenever devices come free: those of a cohort get them by what their quotas have, in whatever order the pass has looked at them."""

import asyncio
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, islice

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Ticking
from tests.observedcluster import ObservedCluster
from tests.quota.tenants import cluster, leave, quota, wait
from tests.scheduling.busywalks import exhaust, pressed, waiting

GPUS = 8
_LEAST = 20
"""Fewer steps than a pass over those that wait here has."""


def _served(world: ObservedCluster, *teams: str) -> tuple[int, ...]:
    places = world.places()
    return tuple(sum(name.startswith(team) for name in places) for team in teams)


def _wait_for_all(
    world: ObservedCluster, team: str, since: int, *, like_no_other: bool, gpus: int = GPUS
) -> None:
    for number in range(gpus):
        name = f"{team}-{number}"
        if like_no_other:
            waiting(world, name, number + since, 0, team, since + number)
        else:
            wait(world, team, name, at=since + number)


@pytest.mark.parametrize("like_no_other", [False, True], ids=["of one shape", "like no other"])
@pytest.mark.parametrize("blocker", ["red", "other"])
async def test_a_tenant_that_was_refused_before_gets_its_share(
    unanswered: Client, blocker: str, *, like_no_other: bool
) -> None:
    """It came later and weighs three times as much, so that six of eight GPUs are its own, after whichever step of a pass they come free."""
    found = {}
    for steps in count():
        world = cluster(GPUS, "red", "blue", "other")
        world.policy("p", queue={"mostReserved": 0})
        quota(world, "red", cohort="colours", weight=1)
        quota(world, "blue", cohort="colours", weight=3)
        wait(world, blocker, "all", count=GPUS)
        cycle = pressed(world, unanswered)
        exhaust(cycle._pass(longest=LONGEST, evaluates=False))
        assert "all" in world.places()
        _wait_for_all(world, "red", 1, like_no_other=like_no_other)
        _wait_for_all(world, "blue", 20, like_no_other=like_no_other)
        made = cycle._pass(longest=LONGEST, evaluates=False)
        is_over = exhaust(islice(made, steps)) < steps
        leave(world, blocker, "all")
        exhaust(made)
        while sum(_served(world, "red", "blue")) < GPUS:
            exhaust(cycle._pass(longest=LONGEST, evaluates=False))
        found[steps] = _served(world, "red", "blue")
        if is_over:
            break
    assert len(found) > _LEAST
    assert {steps: each for steps, each in found.items() if each != (2, 6)} == {}


@pytest.mark.slow
async def test_it_does_where_devices_come_free_while_the_last_are_looked_at(unanswered: Client) -> None:
    """Of so many that are planned together others run before there is a plan: it went by the turns of before, and the other tenant got nothing."""
    gpus, found = 32, {}
    for steps in range(20, 32):
        world = cluster(gpus, "red", "blue", "other")
        world.policy("p", queue={"mostReserved": 0})
        quota(world, "red", cohort="colours", weight=1)
        quota(world, "blue", cohort="colours", weight=3)
        wait(world, "red", "all", count=gpus)
        cycle = pressed(world, unanswered)
        exhaust(cycle._pass(longest=LONGEST, evaluates=False))
        _wait_for_all(world, "red", 1, like_no_other=True, gpus=gpus)
        _wait_for_all(world, "blue", 50, like_no_other=True, gpus=gpus)
        made = cycle._pass(longest=LONGEST, evaluates=False)
        exhaust(islice(made, steps))
        leave(world, "red", "all")
        exhaust(made)
        while sum(_served(world, "red", "blue")) < gpus:
            exhaust(cycle._pass(longest=LONGEST, evaluates=False))
        found[steps] = _served(world, "red", "blue")
    assert {*found.values()} == {(8, 24)}, found


TEAMS = "abc"
STEP = st.one_of(
    st.tuples(
        st.just("wait"),
        st.sampled_from(TEAMS),
        st.integers(0, 3),
        st.integers(1, 4),
        st.sampled_from([0, 0, 0, 5]),
    ),
    st.tuples(st.just("end"), st.integers(0, 9), st.integers(1, 4)),
    st.tuples(st.just("whole"), st.sampled_from([0.0005, 0.0002, 0.0001])),
    st.tuples(st.just("half"), st.integers(1, 30), st.integers(0, 9), st.integers(1, 4)),
)
"""Pods of a tenant come (what they ask for, how many, their priority), some that have a GPU end, or a pass is made in which reading the clock takes so many seconds; or
one is made during which pods end. Not so long that those who are asked once more in vain take what a walk has for them."""
QUOTA = st.tuples(st.integers(0, 2), st.integers(1, 3))
"""Guarantee and weight."""


@dataclass
class History:
    """A cluster of one node with four GPUs, and what the tenants of a cohort have and wait for."""

    world: ObservedCluster
    clock: Ticking
    cycle: Cycle
    quotas: dict[str, tuple[int, int]]
    waiting: dict[str, int] = field(default_factory=dict)
    """The priority of each that waits."""
    came: int = 0
    most: Counter[str] = field(default_factory=Counter)
    """The most that each tenant had since the last pass."""

    def wait(self, team: str, kind: int, count: int, priority: int) -> None:
        for number in range(count):
            name = f"{team}{self.came:03}"
            self.came += 1
            waiting(self.world, name, kind + number, priority, team, self.came)
            self.waiting[name] = priority

    def end(self, number: int, count: int) -> None:
        having = sorted(self.world.places())
        self.most |= self.used()
        for name in {having[(number + more) % len(having)] for more in range(count) if having}:
            leave(self.world, name[0], name)
            self.waiting.pop(name, None)

    def used(self) -> Counter[str]:
        return Counter(name[0] for name in self.world.places())

    def whole(self, seconds: float) -> None:
        self.clock.step = seconds
        exhaust(self.cycle._pass(longest=LONGEST, evaluates=False))

    def half(self, steps: int, number: int, count: int) -> None:
        made = self.cycle._pass(longest=LONGEST, evaluates=False)
        exhaust(islice(made, steps))
        self.end(number, count)
        exhaust(made)

    def check(self, before: Counter[str]) -> None:
        """Compare those that got a GPU with those that still wait: who waits has as much of what is shared as the other one had before its last one."""
        used, most = self.used(), self.most | before
        served = defaultdict[str, set[int]](set)
        for name in self.world.places().keys() & self.waiting.keys():
            served[name[0]].add(self.waiting.pop(name))
        self.most.clear()
        for one, [priority, *others] in served.items():
            for name, waiting_priority in self.waiting.items():
                # Which priority the last one of several had is not known.
                if (other := name[0]) != one and not others:
                    mine = self.due(one, used[one] - 1, priority)
                    assert mine <= self.due(other, max(most[other], used[other]), waiting_priority), (
                        one,
                        name,
                    )

    def due(self, team: str, used: int, priority: int) -> tuple[bool, int, Fraction]:
        """Return whether one more is borrowed, its priority, negative, and the weighted share of what is borrowed."""
        guaranteed, weight = self.quotas[team]
        return used >= guaranteed, -priority, Fraction(max(0, used - guaranteed), weight)


@pytest.mark.slow
@given(st.tuples(QUOTA, QUOTA, QUOTA), st.lists(STEP, max_size=40))
@settings(
    max_examples=500,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_nobody_is_passed_over_by_a_tenant_that_has_more(
    unanswered: Client, quotas: tuple[tuple[int, int], ...], steps: list[tuple[str, *tuple[int, ...]]]
) -> None:
    """However walks end and whenever devices come free. All ask for one GPU, most of them like no other one."""

    async def check() -> None:
        world = cluster(4, *TEAMS)
        world.policy("p", queue={"mostReserved": 0})
        world.clock = clock = Ticking(world.clock.now)
        for team, (guaranteed, weight) in zip(TEAMS, quotas, strict=True):
            quota(world, team, cohort="x", guaranteed=guaranteed, weight=weight)
        history = History(world, clock, pressed(world, unanswered), dict(zip(TEAMS, quotas, strict=True)))
        for step, *values in steps:
            before, tasks = history.used(), asyncio.all_tasks()
            getattr(history, step)(*values)
            for write in asyncio.all_tasks() - tasks:
                write.cancel()
            history.check(before)

    asyncio.run(check())
