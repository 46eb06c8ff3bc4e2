"""Gates, unused allocations and groups are the same, whether followed change by change or looked at anew."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, CLASSES, PODS
from apportion.dra.claim import Claim
from apportion.scheduling.clearing.clearing import UnusedAllocations
from apportion.scheduling.demands.followedclaims import FollowedClaims
from apportion.scheduling.demands.groupeddemands import GroupedDemands
from apportion.scheduling.demands.groups import Queued, WaitingGroup
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import request
from tests.scheduling.clustersteps import CLAIM, POD, STEPS, claim_uids, step
from tests.scheduling.openedgates import opened
from tests.scheduling.podgroups import member
from tests.scheduling.queued import world
from tests.steps import steps as steps_of


def uids_of(gates: Gates) -> list[str]:
    """Return the UIDs of the pods whose gate can be removed."""
    return sorted(pod.uid for pod in opened(gates))


@pytest.mark.slow
@given(st.lists(STEPS, max_size=30))
def test_the_same_gates_open(changes: list[Any]) -> None:
    """Claims, pods, allocations, classes and policies come and go in any order."""
    made, uids = world(), claim_uids()
    gates = Gates(made.snapshot)
    for kind, *what in changes:
        step(made, kind, what, uids)
        assert uids_of(gates) == uids_of(Gates(made.snapshot))


@pytest.mark.slow
@given(st.lists(st.tuples(STEPS, st.integers(0, 3)), max_size=30))
def test_a_condition_holds_for_the_same_claims_since_the_same_time(changes: list[Any]) -> None:
    """A claim of the same name is another claim, and one that is reserved otherwise begins anew."""
    made, uids = world(), claim_uids()

    def is_used(claim: Claim) -> bool:
        return any(not pod.finished for pod in made.snapshot.users(claim))

    followed = FollowedClaims(made.snapshot, made.clock, is_used)
    since: dict[tuple[str, object], float] = {}
    for (kind, *what), seconds in changes:
        step(made, kind, what, uids)
        made.clock.now += seconds
        followed.follow()
        now = made.clock.now
        allocated = made.snapshot.claims_of(made.snapshot.claim_index.allocated)
        keys = [(claim.uid, claim.reserved_for) for claim in allocated if is_used(claim)]
        since = {key: since.get(key, now) for key in keys}
        found = [((claim.uid, claim.reserved_for), at) for claim, at in followed.items()]
        assert dict(found) == since
        assert [at for _, at in found] == sorted(since.values())


@pytest.mark.slow
@given(st.lists(STEPS, max_size=30))
def test_the_same_allocations_are_unused(changes: list[Any]) -> None:
    """Pods that named them finish, and claims are deleted."""
    made, uids = world(), claim_uids()
    made.policy(unusedTimeout="0s")
    unused = UnusedAllocations(made.snapshot, made.clock, manager="apportion-operator")
    for kind, *what in changes:
        step(made, kind, what, uids)
        fresh = UnusedAllocations(made.snapshot, made.clock, manager="apportion-operator")
        assert {claim.uid for claim, _ in finished(unused.due())} == {
            claim.uid for claim, _ in finished(fresh.due())
        }


def test_gates_cost_the_same_however_many_pods_wait() -> None:
    """Of whom nothing changed."""
    counts = []
    for waiting in (5, 50):
        made = world()
        for number in range(waiting):
            made.claim(f"w{number}")
            made.pod(f"w{number}", f"w{number}", gates=(GATE,))
        gates = Gates(made.snapshot)
        assert uids_of(gates) == []
        counts.append(steps_of(lambda: uids_of(gates)))  # noqa: B023 - called before the next turn
    assert counts[0] == counts[1]


def test_a_gate_opens_when_the_class_is_managed_by_us_no_longer() -> None:
    """The claim is kube-scheduler's then."""
    made = world()
    late = made.device_class("late")
    made.claim("c", request("late"))
    made.pod("p", "c", gates=(GATE,))
    gates = Gates(made.snapshot)
    assert uids_of(gates) == []
    late["metadata"]["labels"] = {}
    made.see(CLASSES, late)
    assert uids_of(gates) == ["uid-team-pods-p"]


def test_a_claim_of_the_same_name_begins_anew() -> None:
    """Also where nobody looked between the end of the first and the beginning of the second."""
    made = world()
    followed = FollowedClaims(made.snapshot, made.clock, lambda _: True)
    first = made.allocate(made.claim("c"), "n1", "gpu-0")
    followed.follow()
    made.clock.now += 5
    made.gone(CLAIMS, first)
    made.allocate(made.claim("c", uid="second"), "n1", "gpu-0")
    followed.follow()
    assert [(claim.uid, since) for claim, since in followed.items()] == [("second", made.clock.now)]


def test_a_gate_opens_when_an_unreadable_claim_becomes_readable() -> None:
    """Nothing else about the claim changes then."""
    made = world()
    claim = made.allocate(made.claim("c"), "n1", "gpu-0")
    made.pod("p", "c", gates=(GATE,))
    gates = Gates(made.snapshot)
    [result] = claim["status"]["allocation"]["devices"]["results"]
    result["adminAccess"] = "maybe"
    made.see(CLAIMS, claim)
    assert uids_of(gates) == []
    del result["adminAccess"]
    made.see(CLAIMS, claim)
    assert uids_of(gates) == ["uid-team-pods-p"]


CHANGES = st.one_of(
    st.tuples(st.sampled_from(["allocate", "end", "claim"]), CLAIM, st.just("gpu")),
    st.tuples(st.just("finish"), POD),
    st.tuples(st.just("member"), POD, CLAIM, st.sampled_from(["g", "h"])),
)


@pytest.mark.slow
@given(st.lists(CHANGES, max_size=20))
def test_the_same_groups_wait(changes: list[Any]) -> None:
    """Pods join a group and leave it, and their claims come and go."""
    made, uids = world(), claim_uids()
    for slot in uids:
        step(made, "claim", [slot, "gpu"], uids)
        member(made, f"p{slot}", f"c{slot}")
    waiting, grouped = WaitingQueue(made.snapshot), GroupedDemands(made.snapshot)
    for kind, *what in changes:
        if kind == "member":
            pod, claim, group = what
            member(made, f"p{pod}", f"c{claim}", group=group)
        else:
            step(made, kind, what, uids)
        demands, _ = waiting.demands()
        grouped.follow(*waiting.news())
        fresh = GroupedDemands(made.snapshot)
        fresh.follow((), demands)
        assert by_key(finished(grouped.queue(()))) == by_key(finished(fresh.queue(())))


def by_key(queue: list[Queued]) -> dict[str, Queued]:
    return {each.key: each for each in queue if isinstance(each, WaitingGroup)}


def test_pods_of_groups_that_are_gone_are_forgotten() -> None:
    """Their gates went one after the other, and no group waits any more."""
    made = world()
    waiting, grouped = WaitingQueue(made.snapshot), GroupedDemands(made.snapshot)

    def look() -> None:
        waiting.demands()
        finished(grouped.queue(grouped.follow(*waiting.news())))

    claims = [made.claim(f"c{number}") for number in range(2)]
    pods = [member(made, f"p{number}", f"c{number}") for number in range(2)]
    look()
    for number, claim in enumerate(claims):
        made.allocate(claim, "n1", f"gpu-{number}")
    look()
    for number in range(2):
        member(made, f"p{number}", f"c{number}", gates=())
        look()
    for pod in pods:
        made.gone(PODS, pod)
    look()
    assert grouped._groups == {}
