"""What wants devices now."""

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.demands.waiting import (
    MixedClasses,
    RefusedConfiguration,
    UnknownClasses,
    UnknownScheduler,
)
from apportion.scheduling.demands.waitingqueue import waiting_demands
from tests.observedcluster import request
from tests.scheduling.queued import names, world

OTHER_GATE = "kueue.x-k8s.io/admission"


def test_a_claim_waits_only_when_a_ready_pod_uses_it() -> None:
    """Nobody's claim waits for its first consumer; a finished or leaving pod uses nothing."""
    made = world()
    made.claim("c")
    assert names(made) == []
    pod = made.pod("p", "c", gates=[GATE])
    assert names(made) == [["c"]]
    pod["status"] = {"phase": "Failed"}
    made.see(PODS, pod)
    assert names(made) == []


def test_a_pod_is_ready_when_ours_is_the_last_gate() -> None:
    """Kueue and others go first."""
    made = world()
    made.claim("c")
    pod = made.pod("p", "c", gates=[GATE, OTHER_GATE])
    assert names(made) == []
    pod["spec"]["schedulingGates"] = [{"name": GATE}]
    made.see(PODS, pod)
    assert names(made) == [["c"]]


def test_pods_that_share_a_claim_are_one_demand() -> None:
    """All claims that hang together by ready pods are served together or not at all."""
    made = world()
    for name in ("own-a", "shared", "own-b", "apart"):
        made.claim(name)
    made.pod("a", "own-a", "shared")
    made.pod("b", "own-b", "shared")
    made.pod("c", "apart")
    assert sorted(map(sorted, names(made))) == [["apart"], ["own-a", "own-b", "shared"]]


def test_what_is_allocated_already_ties_the_rest() -> None:
    """A pod that comes later finds the shared claim allocated; its own claim has to follow."""
    made = world()
    shared = made.claim("shared")
    made.allocate(shared, "n1", "gpu-0")
    made.claim("own")
    made.pod("p", "shared", "own")
    (demand,), _ = waiting_demands(made.snapshot)
    assert [claim.name for claim in demand.claims] == ["own"]
    assert [claim.name for claim in demand.tied] == ["shared"]


def test_a_pod_with_a_missing_claim_is_not_ready() -> None:
    """Serving half of a pod's claims would waste them."""
    made = world()
    made.claim("there")
    made.pod("p", "there", "missing")
    assert names(made) == []


def test_a_pod_with_a_claim_of_an_unknown_class_gets_nothing_until_the_class_is_there() -> None:
    """It would hold its devices for as long as nobody makes the class."""
    made = world()
    made.claim("gpus")
    made.claim("channel", request("imex"))
    made.pod("p", "gpus", "channel", gates=[GATE])
    assert names(made) == []
    made.device_class("imex", unmanaged="yes")
    assert names(made) == [["gpus"]]


def test_a_template_claim_of_an_older_namesake_is_not_taken_for_the_pods() -> None:
    """The owner's UID must be the pod's."""
    made = world()
    owner = {"kind": "Pod", "controller": True, "uid": "older", "name": "p", "apiVersion": "v1"}
    made.claim("c", ownerReferences=[owner])
    made.pod("p", "c")
    assert names(made) == []


def test_an_immediate_claim_waits_without_a_pod() -> None:
    """The annotation asks for it."""
    made = world()
    made.claim("c", annotations={GATE: "Immediate"})
    assert names(made) == [["c"]]


def test_a_claim_that_spells_immediate_otherwise_is_refused_as_long_as_no_pod_names_it() -> None:
    """It would wait for ever, and nothing would say why. With a pod it is served as any other."""
    made = world()
    made.claim("c", annotations={GATE: "immediate"})
    demands, [found] = waiting_demands(made.snapshot)
    assert demands == []
    assert isinstance(found, RefusedConfiguration)
    assert str(found.error) == f"metadata.annotations[{GATE}]: expected Immediate, not 'immediate'"
    made.pod("p", "c")
    assert names(made) == [["c"]]
    assert waiting_demands(made.snapshot)[1] == []


def test_claims_of_other_classes_are_the_schedulers() -> None:
    """A pod may have one of ours and one of theirs; only ours is a demand."""
    made = world()
    made.claim("ours")
    made.claim("theirs", request("theirs"))
    made.pod("p", "ours", "theirs")
    assert names(made) == [["ours"]]


def test_a_claim_that_mixes_classes_is_reported_and_its_pod_is_not_served() -> None:
    """Neither allocator can serve it, so nothing is spent on its pod."""
    made = world()
    mixed = made.claim("mixed", request("gpu"), request("theirs"))
    made.claim("fine")
    made.pod("p", "mixed", "fine")
    demands, hopeless = waiting_demands(made.snapshot)
    assert demands == []
    (found,) = hopeless
    assert isinstance(found, MixedClasses)
    assert (found.claim.uid, found.managed, found.others) == (
        mixed["metadata"]["uid"],
        frozenset({"gpu"}),
        frozenset({"theirs"}),
    )


def test_a_pod_whose_scheduler_nobody_knows_gets_no_devices_and_a_warning() -> None:
    """Nobody would bind it, so others would lose them; a pod that has its node needs no scheduler."""
    made = world()
    made.claim("c")
    pod = made.pod("p", "c", gates=[GATE], spec={"schedulerName": "mistyped"})
    demands, (found,) = waiting_demands(made.snapshot)
    assert demands == []
    assert isinstance(found, UnknownScheduler)
    assert (found.pod.name, found.known) == ("p", {"default-scheduler"})
    pod["spec"]["nodeName"], pod["spec"]["schedulingGates"] = "n1", []
    made.see(PODS, pod)
    assert names(made) == [["c"]]


def test_an_unknown_class_behind_our_gate_is_reported_until_it_exists() -> None:
    """A typing error is told; a class that a layout makes a moment later is served."""
    made = world()
    made.claim("c", request("late"))
    made.pod("p", "c", gates=[GATE])
    demands, hopeless = waiting_demands(made.snapshot)
    assert demands == []
    assert [found.classes for found in hopeless if isinstance(found, UnknownClasses)] == [frozenset({"late"})]
    made.device_class("late")
    assert names(made) == [["c"]]


def test_higher_priority_goes_first_then_the_older() -> None:
    """Queue order."""
    made = world()
    for name, made_at in (
        ("late", "2026-01-03T00:00:00Z"),
        ("early", "2026-01-02T00:00:00Z"),
        ("vip", "2026-01-04T00:00:00Z"),
    ):
        made.claim(name, creationTimestamp=made_at)
        pod = made.pod(name, name, spec={"priority": 10 if name == "vip" else 0})
        pod["metadata"]["creationTimestamp"] = made_at
        made.see(PODS, pod)
    assert names(made) == [["vip"], ["early"], ["late"]]


def test_priority_does_not_count_where_the_policy_says_first_in_first_out() -> None:
    """Such a demand counts as one of priority 0, also among those of other policies."""
    made = world()
    made.device_class("fifo")
    made.policy(classes=["fifo"], queue={"order": "FIFO"})
    for name, device_class, priority, made_at in (
        ("early", "fifo", 0, "2026-01-01T00:00:00Z"),
        ("vip", "fifo", 10, "2026-01-02T00:00:00Z"),
        ("other", "gpu", 1, "2026-01-03T00:00:00Z"),
        ("late", "gpu", 0, "2026-01-04T00:00:00Z"),
    ):
        made.claim(name, request(device_class), creationTimestamp=made_at)
        pod = made.pod(name, name, spec={"priority": priority})
        pod["metadata"]["creationTimestamp"] = made_at
        made.see(PODS, pod)
    assert names(made) == [["other"], ["early"], ["vip"], ["late"]]


def test_a_claim_that_is_going_away_is_nobodys_demand() -> None:
    """Its devices could never be used."""
    made = world()
    claim = made.claim("c", deletionTimestamp="2026-01-01T00:00:00Z")
    made.pod("p", "c")
    assert names(made) == []
    made.gone(CLAIMS, claim)
    assert names(made) == []
