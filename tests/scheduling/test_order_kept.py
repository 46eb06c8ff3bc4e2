"""However walks end and whenever devices come free: nobody gets what one before it, by priority and age, could have had."""

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.scheduling.cycle import LONGEST, Cycle
from tests.clock import Ticking
from tests.observedcluster import ObservedCluster
from tests.scheduling.busywalks import exhaust, pressed, waiting
from tests.scheduling.evicting import ends, holds
from tests.scheduling.queued import fleet

GPUS = 3
STEP = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 3), st.sampled_from([0, 0, 5, -5]), st.sampled_from("ab")),
    st.tuples(st.just("end"), st.integers(0, 9)),
    st.tuples(st.just("whole"), st.sampled_from([0.02, 0.002, 0.0001])),
    st.tuples(st.just("half"), st.integers(1, 12), st.integers(0, 9)),
)
"""A pod comes (what it asks for, its priority and namespace), one that has a GPU ends, or a pass is made in which reading the clock takes so many seconds; or
one is made during which a pod ends."""


@dataclass
class History:
    """A cluster of one node, and who waits in it."""

    world: ObservedCluster
    clock: Ticking
    cycle: Cycle
    waiting: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    """Priority and age, lowest first, and namespace of each that waits."""
    turns: set[tuple[int, str]] = field(default_factory=set)
    """Priority and namespace of those that got a GPU in this pass and ended in it."""
    came: int = 0

    def wait(self, kind: int, priority: int, team: str) -> None:
        name = f"w{self.came:03}"
        self.came += 1
        waiting(self.world, name, kind, priority, team, self.came)
        self.waiting[name] = -priority, name, team

    def end(self, number: int) -> None:
        """End one of those that have a GPU."""
        having = sorted(self.world.places())
        if having:
            name = having[number % len(having)]
            if (served := self.waiting.pop(name, None)) is not None:
                self.turns.add((served[0], served[2]))
            ends(self.world, name)

    def whole(self, seconds: float) -> None:
        """Make a pass in which reading the clock takes so long."""
        self.clock.step = seconds
        exhaust(self.cycle._pass(longest=LONGEST, evaluates=False))

    def half(self, steps: int, number: int) -> None:
        """Make a pass, and end a pod after some steps of it."""
        made = self.cycle._pass(longest=LONGEST, evaluates=False)
        for _, work in zip(range(steps), made, strict=False):
            if work is not None:
                work()
        self.end(number)
        exhaust(made)

    def check(self) -> None:
        """Compare those that got a GPU with those that still wait: of the others one of a namespace may have come later, but none of lower priority."""
        served = [self.waiting.pop(name) for name in self.world.places().keys() & self.waiting.keys()]
        turns = self.turns | {(priority, team) for priority, _, team in served}
        for priority, name, team in served:
            for other in self.waiting.values():
                assert priority <= other[0], (name, other)
                # A namespace that had its turn in this pass may wait for the others to have theirs.
                has_turn = team == other[2] or (other[0], other[2]) not in turns
                assert priority < other[0] or not has_turn or name < other[1], (name, other)
        self.turns.clear()


@pytest.mark.slow
@given(st.lists(STEP, max_size=40))
@example([("wait", 3, -5, "a"), ("wait", 0, 0, "a"), ("whole", 0.0001), ("wait", 0, 0, "a"), ("half", 12, 5)])
@example(
    [
        *[("end", 1), ("wait", 3, -5, "a"), ("whole", 0.0001), ("wait", 1, 0, "b"), ("end", 5)],
        *[("wait", 3, 0, "b"), ("wait", 0, 0, "a"), ("half", 11, 5)],
    ]
)
@settings(
    max_examples=250,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make such histories smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_nobody_is_passed_over(unanswered: Client, steps: list[tuple[str, *tuple[int, ...]]]) -> None:
    """All ask for one GPU, most of them like no other one."""

    async def check() -> None:
        world = fleet({"n1": ("h100", GPUS)})
        world.policy("p", queue={"mostReserved": 0})
        world.clock = clock = Ticking(world.clock.now)
        for number in range(GPUS):
            holds(world, f"h{number}", number)
        history = History(world, clock, pressed(world, unanswered))
        for step, *values in steps:
            before = asyncio.all_tasks()
            getattr(history, step)(*values)
            for write in asyncio.all_tasks() - before:
                write.cancel()
            history.check()

    asyncio.run(check())
