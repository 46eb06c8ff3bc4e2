"""Which pods make a group, and when it is whole."""

from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.api.partition import Phase
from apportion.cluster.kinds import PODS
from apportion.scheduling.gates import open_gates
from apportion.scheduling.groups import Joint, Tangled, bundled
from apportion.scheduling.waiting import Waiting, waiting
from tests.observedcluster import ObservedCluster as World

OURS = ("apportion.dev/pod-group", "apportion.dev/pod-group-min-count")
KUEUE = ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count")


def world() -> World:
    """Return a world with one managed class."""
    made = World()
    made.device_class("gpu")
    return made


def member(
    made: World,
    name: str,
    *claims: str,
    least: str | None = "2",
    group: str = "g",
    names: tuple[str, str] = OURS,
    gates: tuple[str, ...] = (GATE,),
) -> dict[str, Any]:
    """Add a pod of a group, behind our gate."""
    raw = made.pod(name, *claims, gates=gates)
    raw["metadata"]["labels"] = {names[0]: group}
    raw["metadata"]["annotations"] = {names[1]: least} if least is not None else {}
    return made.see(PODS, raw)


def bundles(made: World) -> list[Waiting | Joint | Tangled]:
    """Return what would be decided."""
    return bundled(waiting(made.snapshot)[0], made.snapshot)


def joint(made: World) -> Joint:
    """Return the only thing to decide, a group."""
    [found] = bundles(made)
    assert isinstance(found, Joint)
    return found


def opened(made: World) -> list[str]:
    """Return the pods whose gate may go."""
    pods = open_gates(made.snapshot, contested=frozenset(), phase=lambda _: Phase.READY)
    return sorted(pod.name for pod in pods)


@pytest.mark.parametrize("names", [OURS, KUEUE], ids=["our names", "Kueue's names"])
def test_pods_of_one_name_are_decided_together(names: tuple[str, str]) -> None:
    """In the place of the first of them; others stay by themselves."""
    made = world()
    for name in ("a", "b", "alone"):
        made.claim(name)
    member(made, "pa", "a", names=names)
    made.pod("p", "alone")
    member(made, "pb", "b", names=names)

    [group, single] = bundles(made)

    assert isinstance(group, Joint)
    assert [claim.name for demand in group.demands for claim in demand.claims] == ["a", "b"]
    assert (group.group.key, group.enough, group.whole) == ("team/g", 2, True)
    assert isinstance(single, Waiting)


@pytest.mark.parametrize("mark", ["fast-admission", "serving"])
def test_groups_of_kueue_whose_pods_come_later_do_not_wait(mark: str) -> None:
    """A driver that makes its own workers, a StatefulSet: the first pod must run before the next one is made."""
    made = world()
    made.claim("a")
    pod = member(made, "pa", "a", names=KUEUE, least="3")
    pod["metadata"]["annotations"][f"kueue.x-k8s.io/pod-group-{mark}"] = "true"
    made.see(PODS, pod)

    [single] = bundles(made)

    assert isinstance(single, Waiting)


def test_a_group_is_not_whole_before_enough_of_its_pods_wait_for_nobody_else() -> None:
    """A pod behind another gate does not count, nor does one whose claim is missing."""
    made = world()
    for name in ("a", "b", "c"):
        made.claim(name)
    member(made, "pa", "a", least="3")
    member(made, "pb", "b", least="3", gates=(GATE, "kueue.x-k8s.io/admission"))
    member(made, "pc", "nowhere", least="3")
    assert not joint(made).whole

    member(made, "pb", "b", least="3")
    assert not joint(made).whole

    member(made, "pc", "c", least="3")
    assert joint(made).whole


def test_a_pod_that_comes_back_needs_only_itself() -> None:
    """Those of its group that run, or are done, count; one that failed does not."""
    made = world()
    made.allocate(made.claim("a"), "n1", "gpu-0")
    made.claim("b")
    made.claim("c")
    bound = member(made, "pa", "a", least="3")
    bound["spec"]["nodeName"] = "n1"
    made.see(PODS, bound)
    done = member(made, "pb", "b", least="3")
    done["status"] = {"phase": "Succeeded"}
    made.see(PODS, done)
    member(made, "pc", "c", least="3")

    assert (joint(made).served, joint(made).enough, joint(made).whole) == (2, 1, True)

    done["status"] = {"phase": "Failed"}
    done["spec"]["nodeName"] = "n2"
    made.see(PODS, done)
    assert not joint(made).whole


@pytest.mark.parametrize(
    ("least", "words"),
    [
        (None, "is missing"),
        ("two", "'two'"),
        ("0", "'0'"),
        ("-1", "'-1'"),
        ("1.5", "'1.5'"),
        ("9" * 30, "not a number"),
    ],
)
def test_a_wrong_number_is_told_by_its_field(least: str | None, words: str) -> None:
    """And nobody of the group is served by it."""
    made = world()
    made.claim("a")
    member(made, "pa", "a", least=least)

    found = joint(made)

    assert not found.whole
    assert "pod pa: metadata.annotations[apportion.dev/pod-group-min-count]" in found.group.flaw
    assert words in found.group.flaw


def test_pods_must_agree_on_how_many_they_are() -> None:
    """The flaw names one pod for every number."""
    made = world()
    made.claim("a")
    made.claim("b")
    member(made, "pa", "a", least="2")
    member(made, "pb", "b", least="3")

    assert not joint(made).whole
    assert joint(made).group.flaw == "its pods disagree on how many it needs: pa says 2, pb says 3"


def test_a_claim_that_joins_two_groups_is_nobodys() -> None:
    """All or nothing cannot hold for both."""
    made = world()
    made.claim("shared")
    member(made, "pa", "shared", group="g")
    member(made, "pb", "shared", group="h")

    [found] = bundles(made)

    assert isinstance(found, Tangled)
    assert found.groups == ("g", "h")


def test_gates_of_a_group_go_together() -> None:
    """Not before enough of its pods have their devices in the server's own words; a launcher without claims waits too."""
    made = world()
    first, second = made.claim("a"), made.claim("b")
    member(made, "launcher", least="3")
    member(made, "pa", "a", least="3")
    member(made, "pb", "b", least="3")
    made.allocate(first, "n1", "gpu-0")
    assert opened(made) == []

    made.allocate(second, "n2", "gpu-0")

    assert opened(made) == ["launcher", "pa", "pb"]


def test_pods_that_hold_devices_for_an_incomplete_group_are_noticed() -> None:
    """One of them went away after all had been served: nobody asks for anything, and nobody may start."""
    made = world()
    first = made.claim("a")
    made.claim("b")
    member(made, "pa", "a")
    other = member(made, "pb", "b")
    made.allocate(first, "n1", "gpu-0")
    made.gone(PODS, other)

    assert opened(made) == []
    assert (joint(made).demands, joint(made).whole) == ((), False)
