"""Which pods make a group, and when it is whole."""

from collections.abc import Mapping

import pytest

from apportion.api.contract import GATE
from apportion.cluster.kinds import PODS
from apportion.dra.groupmembership import KUEUE_REQUIRED, LEAST, MODE, MOST, TOPOLOGY
from apportion.scheduling.demands.groups import CrossGroupDemand, WaitingGroup
from apportion.scheduling.demands.waiting import WaitingDemand
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.podgroups import KUEUE, OURS, member, only_group, opened, queue
from tests.scheduling.queued import world


@pytest.mark.parametrize("names", [OURS, KUEUE], ids=["our names", "Kueue's names"])
def test_pods_of_one_name_are_decided_together(names: tuple[str, str]) -> None:
    """Others stay by themselves."""
    made = world()
    for name in ("a", "b", "alone"):
        made.claim(name)
    member(made, "pa", "a", names=names)
    made.pod("p", "alone")
    member(made, "pb", "b", names=names)

    [single, group] = queue(made.snapshot)

    assert isinstance(group, WaitingGroup)
    assert [claim.name for demand in group.demands for claim in demand.claims] == ["a", "b"]
    assert (group.pod_group.key, group.enough, group.whole) == ("team/g", 2, True)
    assert isinstance(single, WaitingDemand)


@pytest.mark.parametrize("mark", ["fast-admission", "serving"])
def test_groups_of_kueue_whose_pods_come_later_do_not_wait(mark: str) -> None:
    """A driver that makes its own workers, a StatefulSet: the first pod must run before the next one is made."""
    made = world()
    made.claim("a")
    pod = member(made, "pa", "a", names=KUEUE, least="3")
    pod["metadata"]["annotations"][f"kueue.x-k8s.io/pod-group-{mark}"] = "true"
    made.see(PODS, pod)

    [single] = queue(made.snapshot)

    assert isinstance(single, WaitingDemand)


def test_a_group_is_not_whole_before_enough_of_its_pods_wait_for_nobody_else() -> None:
    """A pod behind another gate does not count, nor does one whose claim is missing."""
    made = world()
    for name in ("a", "b", "c"):
        made.claim(name)
    member(made, "pa", "a", least="3")
    member(made, "pb", "b", least="3", gates=(GATE, "kueue.x-k8s.io/admission"))
    member(made, "pc", "nowhere", least="3")
    assert not only_group(made).whole

    member(made, "pb", "b", least="3")
    assert not only_group(made).whole

    member(made, "pc", "c", least="3")
    assert only_group(made).whole


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

    assert (only_group(made).served, only_group(made).enough, only_group(made).whole) == (2, 1, True)

    done["status"] = {"phase": "Failed"}
    done["spec"]["nodeName"] = "n2"
    made.see(PODS, done)
    assert not only_group(made).whole


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
def test_a_wrong_number_is_reported_by_its_field(least: str | None, words: str) -> None:
    """And nobody of the group is served by it."""
    made = world()
    made.claim("a")
    member(made, "pa", "a", least=least)

    found = only_group(made)

    assert not found.whole
    assert "pod pa: metadata.annotations[apportion.dev/pod-group-min-count]" in found.pod_group.flaw
    assert words in found.pod_group.flaw


def test_pods_must_agree_on_how_many_they_are() -> None:
    """The flaw names a pod, the annotation and the reason; other groups are whole."""
    made = world()
    for name in ("a", "b", "c"):
        made.claim(name)
    member(made, "pa", "a", least="2")
    member(made, "pb", "b", least="3")
    member(made, "pc", "c", least="1", group="h")

    found = {each.pod_group.name: each for each in queue(made.snapshot) if isinstance(each, WaitingGroup)}

    assert (found["g"].whole, found["h"].whole) == (False, True)
    assert found["g"].pod_group.flaw == (
        "pod pb: metadata.annotations[apportion.dev/pod-group-min-count] is 3, and 2 on pod pa: all pods of a group"
        " have to say the same"
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({MOST: "1"}, "metadata.annotations[apportion.dev/pod-group-max-count] is 1, less than the 2 of"),
        ({MOST: "many"}, "metadata.annotations[apportion.dev/pod-group-max-count] is 'many'"),
        ({MODE: "Required"}, "metadata.annotations[apportion.dev/pod-group-topology-mode] needs"),
        ({TOPOLOGY: "rack", MODE: "required"}, "is 'required', not Required or Preferred"),
        ({TOPOLOGY: ""}, "metadata.annotations[apportion.dev/pod-group-topology] is empty"),
        ({TOPOLOGY: "rack", KUEUE_REQUIRED: "block"}, "exclude each other"),
    ],
)
def test_what_a_pod_says_of_its_group_is_checked(said: dict[str, str], words: str) -> None:
    """Nobody guesses what was meant."""
    made = world()
    made.claim("a")
    made.claim("b")
    member(made, "pa", "a")
    member(made, "pb", "b", said=said)

    assert not only_group(made).whole
    assert only_group(made).pod_group.flaw.startswith("pod pb: ")
    assert words in only_group(made).pod_group.flaw


def test_an_elastic_group_may_have_more_pods_than_it_needs_but_not_more_than_it_says() -> None:
    """Those that run count."""
    made = world()
    made.allocate(made.claim("a"), "n1", "gpu-0")
    for name in ("b", "c", "d"):
        made.claim(name)
    said = {MOST: "3"}
    bound = member(made, "pa", "a", said=said)
    bound["spec"]["nodeName"] = "n1"
    made.see(PODS, bound)
    for name in "bcd":
        member(made, f"p{name}", name, said=said)

    group = only_group(made)

    assert (group.served, group.enough, group.more, group.whole) == (1, 1, 2, True)


@pytest.mark.parametrize(
    ("labels", "annotations", "key", "least"),
    [
        ({"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/group-index": "3"},
         {"leaderworkerset.sigs.k8s.io/size": "4"}, "team/leaderworkerset/w-3", 4),
        ({"leaderworkerset.sigs.k8s.io/name": "w", "leaderworkerset.sigs.k8s.io/group-index": "3"},
         {"leaderworkerset.sigs.k8s.io/size": "4", LEAST: "1"}, "team/leaderworkerset/w-3", 1),
        ({"jobset.sigs.k8s.io/jobset-name": "train"}, {LEAST: "6"}, "team/jobset/train", 6),
    ],
)  # fmt: skip
def test_pods_of_a_leaderworkerset_and_of_a_jobset_are_groups_by_what_they_carry(
    labels: dict[str, str], annotations: dict[str, str], key: str, least: int
) -> None:
    """Our annotation counts where both say a number."""
    made = world()
    made.claim("a")
    raw = made.pod("pa", "a", gates=(GATE,))
    raw["metadata"] |= {"labels": labels, "annotations": annotations}
    made.see(PODS, raw)

    found = only_group(made).pod_group

    assert (found.key, found.least, found.flaw) == (key, least, "")


def test_a_leader_that_goes_first_is_served_alone_and_its_workers_together() -> None:
    """With `startupPolicy: LeaderReady` they are made when it runs. Where they are there before it has devices, all are one."""
    made = world()
    leader, devices = lws(made, "0", {LEAST: "1"}), made.claim("w0")
    assert (only_group(made).enough, only_group(made).whole) == (1, True)
    made.allocate(devices, "n1", "gpu-0")
    assert opened(made) == ["w0"]

    lws(made, "1")
    assert opened(made) == [], "its workers came before it lost its gate"
    assert (only_group(made).enough, only_group(made).whole) == (2, False)
    leader["spec"] |= {"nodeName": "n1", "schedulingGates": []}
    made.see(PODS, leader)
    lws(made, "2")
    group = only_group(made)
    assert (group.pod_group.flaw, group.served, group.enough, group.whole) == ("", 1, 2, True)


@pytest.mark.parametrize(
    ("leader", "worker"), [({LEAST: "2"}, {}), ({}, {LEAST: "1"}), ({LEAST: "1"}, {MOST: "3"})]
)
def test_a_leader_and_its_workers_may_differ_in_nothing_else(
    leader: dict[str, str], worker: dict[str, str]
) -> None:
    """Another number than 1, a worker that goes first, or another most."""
    made = world()
    lws(made, "0", leader)
    lws(made, "1", worker)
    assert "have to say the same" in only_group(made).pod_group.flaw


def lws(made: ObservedCluster, index: str, said: Mapping[str, str] | None = None) -> Json:
    """Add a pod of a LeaderWorkerSet's replica of three, with a claim; `said`: further annotations."""
    made.claim(f"w{index}")
    raw = made.pod(f"w{index}", f"w{index}", gates=(GATE,))
    lws = "leaderworkerset.sigs.k8s.io/"
    raw["metadata"]["labels"] = {lws + "name": "w", lws + "group-index": "0", lws + "worker-index": index}
    raw["metadata"]["annotations"] = {lws + "size": "3"} | dict(said or {})
    return made.see(PODS, raw)


def test_pods_of_a_jobset_that_says_no_size_are_decided_one_by_one() -> None:
    """Nothing on them says how many pods the Jobs have."""
    made = world()
    made.claim("a")
    raw = made.pod("pa", "a", gates=(GATE,))
    raw["metadata"]["labels"] = {"jobset.sigs.k8s.io/jobset-name": "train"}
    made.see(PODS, raw)

    assert isinstance(queue(made.snapshot)[0], WaitingDemand)


def test_a_claim_that_joins_two_groups_is_nobodys() -> None:
    """All or nothing cannot hold for both."""
    made = world()
    made.claim("shared")
    member(made, "pa", "shared", group="g")
    member(made, "pb", "shared", group="h")

    [found] = queue(made.snapshot)

    assert isinstance(found, CrossGroupDemand)
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
    assert (only_group(made).demands, only_group(made).whole) == ((), False)
