"""A claim that thousands of pods name, each with others: its changes are cheap to observe, and nobody misses one."""

from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from tests.observedcluster import ObservedCluster, request
from tests.steps import Steps, steps

CLAIMS_EACH = 48


def test_what_a_change_costs_does_not_grow_with_what_its_pods_name_beside_it() -> None:
    """With 5,000 pods that name the same 64 claims each label on one of these took a quarter of a second, and its owner may write ten of them in one."""
    found = []
    for count in (100, 600):
        world = ObservedCluster()
        names = [f"c{number}" for number in range(CLAIMS_EACH)]
        raws = [world.claim(name) for name in names]
        for number in range(count):
            world.pod(f"p{number}", *names)
        raws[0]["metadata"]["labels"] = {"changed": "yes"}
        found.append(steps(lambda w=world, r=raws[0]: w.see(CLAIMS, r)))
    assert found[1] - found[0] < CLAIMS_EACH / 2 * 500


def waiting(count: int) -> tuple[ObservedCluster, WaitingQueue]:
    """Return pods that each have a claim of their own, and wait for another driver's, which comes last."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.device_class("theirs", unmanaged="yes")
    for number in range(count):
        world.claim(f"c{number}")
        world.pod(f"p{number}", f"c{number}", "shared")
    queue = WaitingQueue(world.snapshot)
    assert queue.demands() == ([], [])
    world.claim("shared", request("theirs"))
    return world, queue


def test_all_that_depends_on_it_is_looked_at() -> None:
    """Also by a pass that comes after one that ended, as where the lease is lost."""
    for given_up in (False, True):
        world, queue = waiting(1_500)
        if given_up:
            next(world.snapshot.changes.steps())
        assert len(queue.demands()[0]) == 1_500


def test_it_is_done_in_steps() -> None:
    """Five times as many pods take more steps, and none of them longer."""
    longest = []
    for count in (600, 3_000):
        world, _ = waiting(count)
        noting, most, more = world.snapshot.changes.steps(), 0, True
        while more:
            with Steps() as counted:
                more = next(noting, noting) is not noting
            most = max(most, counted.count)
        longest.append(most)
    assert longest[1] < 20_000


def test_a_replica_that_makes_no_pass_keeps_no_pods_that_are_gone() -> None:
    """One that stands by, for months."""
    world, _ = waiting(1_500)
    for raw in [raw for (kind, _, _), raw in world.seen.items() if kind is PODS]:
        world.gone(PODS, raw)
    before = world.snapshot.changes.claims.end
    for _ in world.snapshot.changes.steps():
        pass
    assert world.snapshot.changes.claims.end == before
