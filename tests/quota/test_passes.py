"""Whatever comes and goes: what passes grant stays within limits, guarantees come first, nothing is left idle that somebody may have."""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.dra.quantity import NANO
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import ObservedCluster
from tests.quota.tenants import cluster, leave, quota, wait

DEVICES = 6
TENANTS = "abc"
QUOTA = st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(1, 3))
"""Guarantee, how much the limit is above it, weight."""
CHANGE = st.one_of(
    st.tuples(st.just("come"), st.sampled_from(TENANTS), st.integers(1, 8), st.integers(0, 1)),
    st.tuples(st.just("end"), st.integers(0, DEVICES)),
    st.tuples(st.just("quota"), st.sampled_from(TENANTS), QUOTA),
)
HISTORY = st.tuples(st.tuples(QUOTA, QUOTA, QUOTA), st.lists(CHANGE, min_size=1, max_size=12))


@dataclass
class World:
    """Six GPUs, and three tenants of one cohort that ask for one each."""

    observed: ObservedCluster = field(default_factory=lambda: cluster(DEVICES, *TENANTS))
    reserves: bool = True
    """Whether devices are reserved for the first of the queue, as by default: within one pass what that frees may go to a later demand."""
    quotas: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Guarantee and limit."""
    count: int = 0

    def __post_init__(self) -> None:
        if not self.reserves:
            self.observed.policy(queue={"mostReserved": 0})

    def set_quota(self, tenant: str, drawn: tuple[int, int, int]) -> None:
        guaranteed, more, weight = drawn
        self.quotas[tenant] = guaranteed, guaranteed + more
        quota(
            self.observed, tenant, cohort="x", guaranteed=guaranteed, limit=guaranteed + more, weight=weight
        )

    def change(self, kind: str, *what: Any) -> None:
        if kind == "quota":
            self.set_quota(*what)
        elif kind == "come":
            tenant, count, priority = what
            for _ in range(count):
                self.count += 1
                wait(self.observed, tenant, f"{tenant}-{self.count}", priority=priority, at=self.count)
        else:
            for name in sorted(self.observed.places())[: what[0]]:
                leave(self.observed, name[0], name)

    def used(self) -> Counter[str]:
        """Return how many GPUs each tenant has."""
        return Counter(name[0] for name in self.observed.places())

    def waiting(self) -> Counter[str]:
        """Return how many claims of each tenant wait."""
        return Counter(claim.namespace for claim in self.observed.snapshot.claims.values()) - self.used()


def make_pass(world: World, cycle: Cycle) -> None:
    """Make a pass of which nothing is written, and look at what it did."""
    before, had = asyncio.all_tasks(), world.used()
    cycle.once()
    for write in asyncio.all_tasks() - before:
        write.cancel()
    used, waiting = world.used(), world.waiting()
    cycle.quotas.charging.follow()
    assert {use.name: use.used for use in cycle.quotas.charging.usage} == {
        tenant: [used[tenant] * NANO] for tenant in TENANTS
    }
    granted = used - had
    for tenant in granted:
        assert used[tenant] <= world.quotas[tenant][1]
    for tenant in TENANTS:
        guaranteed, _ = world.quotas[tenant]
        # Who is within the guarantee does not wait while another one was granted more than his.
        borrowers = [other for other in granted if other != tenant and used[other] > world.quotas[other][0]]
        assert world.reserves or not (waiting[tenant] and used[tenant] < guaranteed and borrowers)


@pytest.mark.slow
@settings(
    max_examples=120,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(history=HISTORY, reserves=st.booleans())
def test_limits_hold_and_guarantees_come_first_after_any_events(
    unanswered: Client, *, history: tuple[tuple[Any, ...], list[tuple[Any, ...]]], reserves: bool
) -> None:
    """Priorities, changed quotas, ends: charges equal a recount, and no pass grants what it should not."""

    async def check() -> None:
        drawn, changes = history
        world = World(reserves=reserves)
        for tenant, own in zip(TENANTS, drawn, strict=True):
            world.set_quota(tenant, own)
        cycle = world.observed.cycle(unanswered)
        for kind, *what in changes:
            world.change(kind, *what)
            make_pass(world, cycle)
            # What was reserved for one that has its devices now, or has others reserved, is free for others in the next pass.
            quiet = 0
            while quiet < 2:
                before = len(world.observed.places())
                make_pass(world, cycle)
                quiet = quiet + 1 if before == len(world.observed.places()) else 0
            idle, used, waiting = DEVICES - len(world.observed.places()), world.used(), world.waiting()
            assert not idle or all(used[each] >= world.quotas[each][1] for each in waiting)

    asyncio.run(check())
