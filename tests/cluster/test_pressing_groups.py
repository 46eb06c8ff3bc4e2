"""Of a group that is being served, what presses is that enough of its pods have their devices: each of a thousand writes shows twice."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.openedgates import opened
from tests.scheduling.podgroups import gang, member

CLAIMED = 4
"""Claims."""
NOTHING = Allocation.from_json({"devices": {"results": []}})


class Group:
    """A group of pods with a claim each, the last one with two, and what becomes of them."""

    def __init__(self, least: int) -> None:
        """`least`: how many pods have to have their devices."""
        self.world = gang(0, 1)
        self.claims = [self.world.claim(f"c{number}") for number in range(CLAIMED)]
        names = [each["metadata"]["name"] for each in self.claims]
        self.pods = [
            member(self.world, f"p{number}", *claims, least=str(least))
            for number, claims in enumerate((names[:1], names[1:2], names[2:]))
        ]

    def step(self, what: str, number: int) -> None:
        """Let something happen to a claim, or to a pod."""
        raw = self.claims[number]
        world, snapshot, claim = self.world, self.world.snapshot, self.world.claim_value(raw)
        assumed = snapshot.assumed.get(claim.uid)
        match what:
            case "decided" if snapshot.allocation(claim) is None:
                snapshot.assume(claim, NOTHING)
            case "protected":
                _show(world, raw)
            case "allocated":
                if assumed is not None:
                    snapshot.sent(assumed, claim.version)
                world.allocate(raw, "n0", f"gpu-{number}")
            case "fails" if assumed is not None:
                snapshot.forget(assumed)
            case "lost":
                raw.pop("status", None)
                _show(world, raw)
            case "leaves":
                world.gone(PODS, self.pods[number % len(self.pods)])
            case "comes":
                world.see(PODS, self.pods[number % len(self.pods)])

    @property
    def outcome(self) -> tuple[set[str], set[str]]:
        """The claims that wait, and the pods whose gate can be removed."""
        demands, _ = waiting_demands(self.world.snapshot)
        found = opened(Gates(self.world.snapshot))
        return {claim.uid for each in demands for claim in each.claims}, {pod.uid for pod in found}


def _show(world: ObservedCluster, raw: Json) -> None:
    raw["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]
    world.see(CLAIMS, raw)


STEP = st.tuples(
    st.sampled_from(["decided", "protected", "allocated", "fails", "lost", "leaves", "comes"]),
    st.integers(0, CLAIMED - 1),
)


@pytest.mark.slow
@given(st.integers(1, 3), st.lists(STEP, max_size=20))
def test_what_does_not_press_lets_no_group_in(least: int, steps: list[tuple[str, int]]) -> None:
    """Whatever happened before: no claim waits, and no gate can be removed, by a change that does not press."""
    group = Group(least)
    for what, number in steps:
        before, wakes = group.outcome, group.world.wakes
        group.step(what, number)
        if group.world.wakes == wakes:
            waiting, open_pods = group.outcome
            assert waiting <= before[0]
            assert open_pods <= before[1]


def test_serving_a_group_wakes_a_pass_when_enough_of_its_pods_are_served() -> None:
    """Not each of its claims, twice."""
    group = Group(least=3)
    for number in range(CLAIMED):
        group.step("decided", number)
    wakes = group.world.wakes
    for number in range(CLAIMED):
        group.step("protected", number)
    for number in range(CLAIMED - 1):
        group.step("allocated", number)
    assert group.world.wakes == wakes
    group.step("allocated", CLAIMED - 1)
    assert group.world.wakes == wakes + 1
    assert len(group.outcome[1]) == len(group.pods)
