"""Thousands wait in the namespaces of many quotas: what a pass does about them is done in steps, and left to nobody."""

import datetime as dt
import gc
from collections import Counter
from functools import partial
from random import Random

import pytest

from apportion.api.selector import LabelSelector
from apportion.cluster.client import Client
from apportion.cluster.kinds import QUOTAS
from apportion.dra.quantity import NANO
from apportion.quota.charge import Charge
from apportion.quota.resource import Resource
from apportion.quota.use import QuotaUse
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.pace import AT_ONCE
from apportion.scheduling.preemption.preemptors import Preemptors
from apportion.scheduling.quota.admission import Admission
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.quota.cohort import Cohorts
from apportion.scheduling.quota.status import quota_status
from apportion.scheduling.quota.statuses import MOST_WRITTEN, QuotaStatuses
from apportion.scheduling.walk.turns import Turns
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import GPUS, cluster, leave, quota, wait
from tests.scheduling.longeststep import longest_step
from tests.steps import Steps, steps

NICS = {"name": "nics", "deviceClass": "nic"}
MANY = 3 * AT_ONCE
NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def crowded(tenants: int, kinds: int) -> ObservedCluster:
    """Return tenants of one cohort without free devices; in each namespace so many pods wait that all ask for something else, the first for what is guaranteed."""
    names = [f"t{number:02}" for number in range(tenants)]
    world = cluster(4, *names)
    world.policy(queue={"reserveAfter": "0s"}, preemption={"mode": "LowerPriority", "after": "0s"})
    world.allocate(world.claim("old", request("gpu", count=4)), "n1", *(f"gpu-{card}" for card in range(4)))
    for name in names:
        quota(world, name, cohort="x", guaranteed=1, reclaims=True)
        for number in range(kinds):
            asked = request("gpu", name=f"r{number}", count=2 if number else 1)
            wait(world, name, f"{name}-{number}", asked, at=number)
    return world


async def test_for_whom_devices_may_be_reserved_is_asked_about_in_steps(unanswered: Client) -> None:
    """Nobody may have them, because each borrows what is guaranteed to others: all are asked about in each pass. It took a second for 2,000."""
    world = crowded(4, MANY // 4)
    cycle = world.cycle(unanswered)
    cycle.once()
    cycle.once()
    with Steps(Admission.stands_back) as asked:
        cycle.once()
    assert asked.count >= MANY // 2
    assert longest_step(cycle, Admission.stands_back) <= AT_ONCE


async def test_who_waits_gets_its_place_in_the_queue_in_steps(unanswered: Client) -> None:
    """Each of another shape, so that none comes behind another one."""
    world = crowded(4, MANY // 4)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert longest_step(cycle, Turns._put) <= AT_ONCE


async def test_for_whom_pods_may_be_evicted_is_asked_about_in_steps(unanswered: Client) -> None:
    """It took 0.07 s for 2,000 that wait."""
    world = crowded(4, MANY // 4)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += 60.0
    with Steps(Preemptors.only) as asked:
        cycle.once()
    assert asked.count >= MANY
    world.clock.now += 60.0
    assert longest_step(cycle, Preemptors.only) <= AT_ONCE + 1


@pytest.mark.slow
async def test_whether_one_stands_back_costs_as_much_however_many_wait_alike(silent: Client) -> None:
    """What is guaranteed is compared with one of each kind."""
    counts = []
    for many in (4, 40):
        world = cluster(8, "a", "b")
        for name, guaranteed in (("a", 0), ("b", 2)):
            quota(world, name, GPUS | {"guaranteed": guaranteed}, NICS | {"guaranteed": 1}, cohort="x")
        for number in range(many):
            wait(world, "b", f"b{number}", request("gpu", count=3), at=number)
        wait(world, "a", "mine")
        quotas = world.cycle(silent).quotas
        demands, _ = waiting_demands(world.snapshot)
        [*quotas.begin((), demands)]
        [mine] = [each for each in demands if each.claims[0].namespace == "a"]
        counts.append(steps(partial(quotas.stands_back, (mine,))))
        assert not quotas.stands_back((mine,))
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_a_quota_that_changes_is_compared_with_each_namespace_once() -> None:
    """Each of 200 compared all with all: it took three seconds before anything was done, and with 1,000 some six minutes."""
    for many in (10, 40):
        world = cluster(8, *(f"t{number}" for number in range(many)))
        for number in range(many):
            with Steps(LabelSelector.matches) as compared:
                quota(world, f"t{number}", guaranteed=1)
            assert compared.count == many


@pytest.mark.slow
def test_nothing_of_a_queue_is_left_to_the_garbage_collector() -> None:
    """What refers to itself stays until the collector looks: 300,000 objects in half a minute, and then everybody waits for it."""
    world = crowded(3, 4)
    charging = Charging(world.snapshot, world.clock)
    charging.follow()
    demands, _ = waiting_demands(world.snapshot)
    gc.collect()
    gc.disable()
    try:
        turns = Turns(world.snapshot.managed, Cohorts(charging, lambda _: 8 * NANO, shares=False))
        [*turns.fill(demands, (), frozenset())]
        for _ in range(5):
            turns.settle(turns.pop(), refused=True)
        del turns
        assert gc.collect() == 0
    finally:
        gc.enable()


def would_take(use: QuotaUse, asked: list[int], borrowed: list[Resource]) -> bool:
    """Say whether this is within a guarantee, and may take what counts in these resources of another quota."""
    rows = [*zip(use.resources, use.used, asked, strict=True)]
    if any(more and used + more > one.guaranteed for one, used, more in rows):
        return False
    mine = [one for one, _, more in rows if more] or [one for one, used, _ in rows if used < one.guaranteed]
    return any(one.overlaps(other) for one in mine for other in borrowed)


def stands_back(world: ObservedCluster, quotas: Admission, mine: WaitingDemand, hopeless: set[str]) -> bool:
    """Say by going through all that wait whether one borrows what others of its cohort wait for."""
    usage, charging = quotas.charging.usage, quotas.charging
    use = usage.of(mine.claims[0].namespace)
    if use is None or use.quota.spec.cohort is None:
        return False
    borrowed = use.beyond_guarantee(charging.expected(mine.claims, use, shares=False))
    return any(
        other is not None
        and other is not use
        and other.quota.spec.cohort == use.quota.spec.cohort
        and key not in hopeless
        and world.snapshot.allocation(each.claims[0]) is None
        and would_take(other, [*charging.expected(each.claims, other, shares=False)], borrowed)
        for key, each in quotas.waiting.items()
        for other in (usage.of(each.claims[0].namespace),)
    )


@pytest.mark.slow
async def test_who_stands_back_is_found_as_by_going_through_all_that_wait(unanswered: Client) -> None:
    """Pods come, go, get devices and are found hopeless; quotas change; others use what is guaranteed."""
    answers = Counter[bool]()
    for seed in range(20):
        answers += _compared(seed, unanswered)
    assert min(answers[False], answers[True]) > 100


def _compared(seed: int, client: Client) -> Counter[bool]:
    """Let things happen in an order of its own, and return the answers, each as it has to be."""
    rng, tenants = Random(seed), "abcd"  # noqa: S311 - a test that can be repeated
    world = cluster(8, *tenants)
    world.device_class("nic", 'device.driver == "nic.apportion.dev"')
    quotas = world.cycle(client).quotas
    hopeless: set[str] = set()
    quotas.claimants.is_hopeless = hopeless.__contains__
    claims, known = dict[str, Json](), dict[str, WaitingDemand]()
    answers = Counter[bool]()
    for tenant in tenants:
        quota(world, tenant, GPUS | {"guaranteed": 2}, NICS | {"guaranteed": 1}, cohort="x")
    for number in range(60):
        tenant = rng.choice(tenants)
        match rng.choice(("come", "come", "go", "use", "quota", "hopeless", "get")):
            case "come":
                kind = rng.choice(("gpu", "gpu", "nic"))
                asked, name = request(kind, count=rng.randint(1, 3)), f"{tenant}{number}"
                claims[name] = wait(world, tenant, name, asked, at=number)
            case "go" if known:
                [claim, *_] = known[rng.choice(sorted(known))].claims
                leave(world, claim.namespace, claim.name)
            case "use":
                charges = (Charge(rng.choice(("gpu", "nic")), "d"),) * rng.randint(0, 3)
                quotas.charging.usage.put(f"of-{tenant}", tenant, charges)
            case "quota":
                guaranteed = [{"guaranteed": rng.randint(0, 4)} for _ in range(2)]
                both = GPUS | guaranteed[0], NICS | guaranteed[1]
                quota(world, tenant, *both, cohort=rng.choice(("x", "x", "y")))
            case "hopeless" if known:
                hopeless.symmetric_difference_update({rng.choice(sorted(known))})
            case "get" if known:
                [claim, *_] = known[rng.choice(sorted(known))].claims
                world.allocate(claims[claim.name], "n1", "gpu-0")
        now = {each.key: each for each in waiting_demands(world.snapshot)[0]}
        gone = [key for key, each in known.items() if now.get(key) is not each]
        [*quotas.begin(gone, [each for key, each in now.items() if known.get(key) is not each])]
        known = now
        for count in (rng.randint(0, 3), rng.randint(0, 3)):
            for each in [*known.values()] * 2:
                found = quotas.stands_back((each,))
                assert found == stands_back(world, quotas, each, hopeless)
                answers[found] += 1
            quotas.charging.usage.put("during the pass", tenant, (Charge("gpu", "d"),) * count)
    return answers


async def test_few_statuses_are_written_at_a_time_and_each_quota_has_its_turn(unanswered: Client) -> None:
    """Where 200 tenants' pods come and go, 200 were written at once each second, before the claims of pods that start."""
    many = 2 * MOST_WRITTEN + MOST_WRITTEN // 2
    world = cluster(8, *(f"t{number}" for number in range(many)))
    for number in range(many):
        quota(world, f"t{number}", limit=1)
    cycle = world.cycle(unanswered)
    recorder = world.recorder(unanswered)
    statuses = QuotaStatuses(
        unanswered, world.snapshot, recorder, cycle.quotas, fence=lambda: None, now=lambda: NOW
    )
    written = []
    for _ in range(3):
        await statuses.act()
        written.append(len(statuses._written))
    assert written == [MOST_WRITTEN, 2 * MOST_WRITTEN, many]
    quota(world, "new", limit=1)
    await statuses.act()
    assert "new" in statuses._written


async def test_what_a_quota_is_said_to_be_is_found_out_once(unanswered: Client) -> None:
    """Nothing changed: each second cost a tenth of a millisecond for each of them."""
    world = cluster(8, "a", "b")
    for name in "ab":
        raw = quota(world, name, limit=1)
        cycle = world.cycle(unanswered)
        cycle.once()
        [use] = [each for each in cycle.quotas.charging.usage if each.name == name]
        status = quota_status(use, [], cycle.quotas.totals, world.snapshot, NOW)
        world.see(QUOTAS, raw | {"status": status})
    cycle = world.cycle(unanswered)
    cycle.once()
    statuses = QuotaStatuses(
        unanswered,
        world.snapshot,
        world.recorder(unanswered),
        cycle.quotas,
        fence=lambda: None,
        now=lambda: NOW,
    )
    found = []
    for more in (0, 0, 1):
        for number in range(more):
            wait(world, "a", f"a{number}", count=9)
        cycle.once()
        with Steps(quota_status) as counted:
            await statuses.act()
        found.append(counted.count)
    assert found == [2, 0, 1]
