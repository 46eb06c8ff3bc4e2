"""Demands that are refused together are served as if each were asked by itself."""

import asyncio
from collections.abc import Iterator
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.walk import lastdemands
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.queued import fleet

pytestmark = pytest.mark.slow

DEVICES = 12
TOGETHER = 16
"""Those that are planned together at the end of a queue: fewer than the operator plans, so that a pass has fewer in all."""
TENANTS = "abc"
CLAIM = st.tuples(st.sampled_from(TENANTS), st.sampled_from([1, 2, 5, DEVICES + 1]), st.integers(0, 1))
"""Namespace, devices, priority."""
CHANGE = st.one_of(
    st.tuples(st.just("come"), st.lists(CLAIM, min_size=1, max_size=3)),
    st.tuples(st.just("end"), st.integers(1, DEVICES)),
    st.tuples(st.just("leave"), st.integers(0, TOGETHER)),
    st.tuples(st.just("fifo"), st.booleans()),
)


History: TypeAlias = tuple[list[tuple[str, int, int]], list[tuple[str, Any]]]


class World:
    """One node; every claim has a pod, and a number by which it is known."""

    def __init__(self, waiting: list[tuple[str, int, int]]) -> None:
        self.observed: ObservedCluster = fleet({"n1": ("h100", DEVICES)})
        # A cycle that makes its first pass has nothing reserved.
        self.observed.policy(queue={"mostReserved": 0})
        self._objects: dict[str, tuple[Json, Json]] = {}
        self._count = 0
        for each in waiting:
            self.come(*each)

    def come(self, namespace: str, devices: int, priority: int) -> None:
        """Let a claim and its pod wait."""
        self._count += 1
        number = self._count
        name = f"c{number}"
        made = f"2026-01-01T{number // 3600:02}:{number // 60 % 60:02}:{number % 60:02}Z"
        metadata = {"name": name, "namespace": namespace, "creationTimestamp": made}
        claim = {
            "metadata": dict(metadata),
            "spec": {"devices": {"requests": [request("gpu", count=devices)]}},
        }
        pod = {
            "metadata": dict(metadata),
            "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": name}], "priority": priority},
        }
        self._objects[name] = self.observed.see(CLAIMS, claim), self.observed.see(PODS, pod)

    def change(self, kind: str, what: Any) -> None:
        """Make one change."""
        served = self.served()
        waiting = [name for name in self._objects if name not in served]
        match kind:
            case "come":
                for each in what:
                    self.come(*each)
            case "end":
                for name in served[:what]:
                    self._go(name)
            case "leave" if what < len(waiting):
                self._go(waiting[what])
            case "fifo":
                order = "FIFO" if what else "Priority"
                self.observed.policy(queue={"order": order, "mostReserved": 0})

    def served(self) -> list[str]:
        """Return the claims that have devices."""
        return sorted(self.observed.places())

    def _go(self, name: str) -> None:
        claim, pod = self._objects.pop(name)
        self.observed.gone(PODS, pod)
        self.observed.gone(CLAIMS, claim)


HISTORY = st.tuples(
    st.lists(CLAIM, min_size=TOGETHER + 8, max_size=2 * TOGETHER), st.lists(CHANGE, max_size=12)
)
QUICK = settings(
    max_examples=30,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # to make such histories smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True, scope="module")
def few_together() -> Iterator[None]:
    """Plan few together."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lastdemands, "MOST_TOGETHER", TOGETHER)
        yield


def decide(world: World, cycle: Cycle) -> list[str]:
    """Make a pass of which nothing is written; return the claims that have devices."""
    before = asyncio.all_tasks()
    cycle.once()
    for write in asyncio.all_tasks() - before:
        write.cancel()
    return world.served()


@QUICK
@given(HISTORY)
def test_nobody_is_left_out_who_could_be_served(unanswered: Client, history: History) -> None:
    """A cycle that remembers no refusal, because it makes its first pass, serves nobody more."""

    async def check() -> None:
        waiting, changes = history
        world = World(waiting)
        cycle = world.observed.cycle(unanswered)
        for kind, what in [("", None), *changes]:
            world.change(kind, what)
            assert decide(world, cycle) == decide(world, world.observed.cycle(unanswered))

    asyncio.run(check())


@QUICK
@given(HISTORY)
def test_the_same_demands_of_one_namespace_are_served(unanswered: Client, history: History) -> None:
    """The same as by a cycle that remembers no refusal; what was refused takes no turn, which other namespaces would notice."""

    async def compare() -> None:
        waiting, changes = history
        remembers, forgets = World([]), World([])
        for world in (remembers, forgets):
            world.change("come", [("a", *rest) for _, *rest in waiting])
        cycle = remembers.observed.cycle(unanswered)
        for kind, what in [("", None), *changes]:
            change = [("a", *rest) for _, *rest in what] if kind == "come" else what
            for world in (remembers, forgets):
                world.change(kind, change)
            assert decide(remembers, cycle) == decide(forgets, forgets.observed.cycle(unanswered))

    asyncio.run(compare())
