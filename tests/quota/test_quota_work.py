"""How much work quotas are to a pass: it follows what changed, not how many quotas there are."""

from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.cluster.client import Client
from apportion.dra.quantity import NANO
from apportion.quota.charge import Charge
from apportion.scheduling.demands.groups import Queued
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.cohort import Cohort
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import GPUS, cluster, quota, wait
from tests.steps import steps

NICS = {"name": "nics", "deviceClass": "nic"}
TENANTS = "abc"
TURNS = st.lists(
    st.one_of(
        st.just("pop"),
        st.just("pop"),
        st.tuples(st.just("settle"), st.integers(0, 5)),
        st.tuples(st.just("charge"), st.sampled_from(TENANTS), st.integers(0, 4)),
        st.tuples(st.just("come"), st.sampled_from(TENANTS), st.integers(0, 1), st.booleans()),
    ),
    min_size=5,
    max_size=40,
)
"""One has its turn; one that had it is settled; a tenant has so many devices now; one comes, of a priority, for a NIC or a GPU."""


class _Everybody(Cohort):
    """Compares all lines at each turn, whatever changed."""

    def _first(self) -> Any:
        self._changed.update(dict.fromkeys(self._lines.values()))
        return super()._first()


def _cohort(
    world: ObservedCluster, charging: Charging, kind: type[Cohort], demands: list[WaitingDemand]
) -> Cohort:
    charging.follow()
    made = kind(charging, total=lambda _: 8 * NANO, shares=False)
    for number, demand in enumerate(demands):
        _put(made, demand, number)
    return made


def _put(cohort: Cohort, demand: WaitingDemand, number: int) -> None:
    cohort.put(demand.claims[0].namespace, demand.priority, (demand.since, demand.key, number), demand)


@pytest.mark.slow
@given(TURNS, st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), min_size=3, max_size=3))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_turns_are_those_of_a_cohort_that_compares_everybody_at_each(
    turns: list[tuple[object, ...] | str], quotas: list[tuple[int, int]]
) -> None:
    """Whatever is granted, settled, charged by others or comes in between."""
    world = cluster(8, *TENANTS)
    world.device_class("nic")
    for tenant, (guaranteed, weight) in zip(TENANTS, quotas, strict=True):
        both = [each | {"guaranteed": guaranteed, "weight": weight} for each in (GPUS, NICS)]
        quota(world, tenant, *both, cohort="x")
    for number in range(18):
        tenant = TENANTS[number % 3]
        device_class = "nic" if number % 4 == 0 else "gpu"
        wait(world, tenant, f"{tenant}-{number}", request(device_class), priority=number % 2, at=number)
    waiting, _ = waiting_demands(world.snapshot)
    # Those that come have waited for longer than those that are there.
    later = {
        (each.claims[0].namespace, each.priority, number % 2): each for number, each in enumerate(waiting[:9])
    }
    charging = Charging(world.snapshot, world.clock)
    cohorts = [_cohort(world, charging, kind, waiting[9:]) for kind in (Cohort, _Everybody)]
    left, number = 9, 9
    had: list[Queued] = []
    for turn in turns:
        match turn:
            case "pop" if left:
                one, other = (cohort.pop() for cohort in cohorts)
                assert one is other
                had.append(one)
                left -= 1
            case "settle", int(at) if had:
                queued = had.pop(at % len(had))
                for cohort in cohorts:
                    cohort.settle(queued)
            case "charge", str(tenant), int(count):
                charges = (Charge("gpu", "gpu.apportion.dev"),) * count
                charging.usage.put(f"of-{tenant}", tenant, charges)
            case "come", str(tenant), int(priority), bool(which):
                demand = later.get((tenant, priority, int(which)))
                if demand is not None:
                    number, left = number + 1, left + 1
                    for cohort in cohorts:
                        _put(cohort, demand, number)


def _many(count: int) -> ObservedCluster:
    """Return so many tenants of one cohort, each with a quota of which nothing is used and claims that wait."""
    names = [f"t{number:02}" for number in range(count)]
    world = cluster(8, *names)
    for name in names:
        quota(world, name, cohort="x", guaranteed=1)
        for number in range(4):
            wait(world, name, f"{name}-{number}", at=number)
    return world


def _turns(cohort: Cohort) -> None:
    for _ in range(16):
        cohort.settle(cohort.pop())


def test_a_turn_costs_as_much_however_many_quotas_are_in_the_cohort() -> None:
    """Only the quota that had the turn before is compared anew with the others."""
    counts = []
    for count in (6, 60):
        world = _many(count)
        waiting, _ = waiting_demands(world.snapshot)
        cohort = _cohort(world, Charging(world.snapshot, world.clock), Cohort, waiting)
        cohort.settle(cohort.pop())

        counts.append(steps(partial(_turns, cohort)))
    assert counts[1] < 1.2 * counts[0]


async def test_who_leaves_some_of_a_guarantee_is_known_as_it_changes(silent: Client) -> None:
    """As it is used and given back, and as its quota says."""
    world = cluster(8, "a", "b")
    quota(world, "a", cohort="x")
    quota(world, "b", cohort="x", guaranteed=1)
    for name in "ab":
        wait(world, name, name)
    quotas = world.cycle(silent).quotas
    [*quotas.begin((), waiting_demands(world.snapshot)[0])]
    [mine] = [each for each in quotas.waiting.values() if each.claims[0].namespace == "a"]
    found = []
    for had in (1, 0, 1, 0):
        quotas.charging.usage.put("used", "b", (Charge("gpu", "gpu.apportion.dev"),) * had)
        found.append(quotas.stands_back((mine,)))
    assert found == [False, True, False, True]
    quota(world, "b", cohort="x")
    quotas.charging.follow()
    assert not quotas.stands_back((mine,))


@pytest.mark.slow
async def test_whether_one_stands_back_costs_as_much_however_many_quotas_there_are(silent: Client) -> None:
    """Who leaves some of a guarantee is known, once for all that wait and for whom devices are reserved."""
    counts = []
    for count in (6, 60):
        world = _many(count)
        for number in range(count):
            quota(world, f"t{number:02}", cohort="x")
        cycle = world.cycle(silent)
        [demand, *_], _ = waiting_demands(world.snapshot)
        cycle.quotas.charging.follow()
        cycle.quotas.stands_back((demand,))
        counts.append(steps(partial(cycle.quotas.stands_back, (demand,))))
    assert counts[0] == counts[1]


def test_what_a_pass_has_not_counted_when_it_is_given_up_is_counted_later() -> None:
    """A lease that ends while claims are read takes none of them out of the use: nothing changes about most of them any more."""
    world = cluster(200, "a")
    quota(world, "a", guaranteed=1)
    for number in range(150):
        claim = world.claim(f"c{number}", request("gpu"), namespace="a")
        world.allocate(claim, "n1", f"gpu-{number}")
    charging = Charging(world.snapshot, world.clock)
    given_up = charging.steps()
    next(given_up)
    del given_up
    charging.follow()
    [use] = charging.usage
    assert use.used == [150 * NANO]
