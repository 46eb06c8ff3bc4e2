"""The live picture, and what is assumed on top of it."""

from dataclasses import fields
from typing import Final

import pytest

from apportion.api.contract import GATE
from apportion.cluster.kinds import CLAIMS, NODES, PODS, SLICES
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.dra.selection import NodeSelector
from tests.observedcluster import GPU, Json, ObservedCluster

CARD = DeviceId(GPU, "n1", "gpu-0")
_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "a"}},
}
_GATED: Final[Json] = {"spec": {"schedulingGates": [{"name": GATE}]}}
PARTS: Final[dict[str, Json]] = {
    "node": {"spec": {"nodeName": "n1"}},
    "nominated": {"status": {"nominatedNodeName": "n1"}},
    "gates": {"spec": {"schedulingGates": [{"name": "other"}]}},
    "claims": {"spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "another"}]}},
    "unread_claims": {
        "spec": {"resourceClaims": [{"name": f"c{row}", "resourceClaimName": "c"} for row in range(129)]}
    },
    "unread": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}] * 5000}},
    "requests": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}},
    "node_selector": {"spec": {"nodeSelector": {"zone": "a"}}},
    "affinity": {
        "spec": {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_ZONE]}
                }
            }
        }
    },
    "tolerations": {"spec": {"tolerations": [{"key": "a", "operator": "Exists"}]}},
    "priority": {"spec": {"priority": 7}},
    "preempts": {"spec": {"preemptionPolicy": "Never"}},
    "phase": {"status": {"phase": "Running"}},
    "deleting": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
    "scheduler": {"spec": {"schedulerName": "another"}},
    "volumes": {"spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "v"}}]}},
    "ephemeral": {"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": {}}}]}},
    "labels": {"metadata": {"labels": {"app": "a"}}},
    "relations": {"spec": {"topologySpreadConstraints": [_SPREAD]}},
    "group": {
        "metadata": {
            "labels": {"apportion.dev/pod-group": "g"},
            "annotations": {"apportion.dev/pod-group-min-count": "2"},
        }
    },
    "scheduled_at": _GATED | {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
    "shown": _GATED | {"status": {"conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}]}},
    "controller": {
        "metadata": {"ownerReferences": [{"kind": "ReplicaSet", "uid": "uid", "controller": True}]}
    },
    "rank_table": {"metadata": {"annotations": {"apportion.dev/rank-table": "HCCL"}}},
    "has_rank_table": {"metadata": {"annotations": {"apportion.dev/hccl-rank-table": "{}"}}},
    "own_annotations": {"metadata": {"annotations": {"apportion.dev/max-runtme": "1h"}}},
    "started": {"status": {"startTime": "2026-01-01T00:00:00Z"}},
    "runtime": {"metadata": {"annotations": {"apportion.dev/max-runtime": "1h"}}},
}
"""A part of a Pod by the field that reads it."""


def answer() -> Allocation:
    return Allocation((DeviceResult("gpu", CARD),), node_selector=NodeSelector.of_name("n1"))


def test_an_assumption_outlives_older_events_and_ends_with_our_own_write() -> None:
    """The watch may still deliver what was true before; it must not free the device."""
    world = ObservedCluster()
    raw = world.claim("c")
    claim = world.claim_value(raw)
    assumption = world.snapshot.assume(claim, answer())
    assert world.snapshot.sent(assumption, str(world.version + 1))
    world.see(CLAIMS, raw)  # our finalizer, on which the allocation depends
    assert world.snapshot.state.holders(CARD) == (claim.uid,)
    assert len(world.snapshot.assumed) == 1
    world.allocate(raw, "n1", "gpu-0")
    assert world.snapshot.state.holders(CARD) == (claim.uid,)
    assert len(world.snapshot.assumed) == 0


def test_a_failed_write_frees_the_device_and_wakes_the_cycle() -> None:
    """What was assumed is forgotten as a whole."""
    world = ObservedCluster()
    claim = world.claim_value(world.claim("c"))
    assumption = world.snapshot.assume(claim, answer())
    wakes, epoch = world.wakes, world.snapshot.retry_epoch
    world.snapshot.forget(assumption)
    assert world.snapshot.state.holders(CARD) == ()
    assert world.wakes > wakes
    assert world.snapshot.retry_epoch > epoch


def test_a_cleared_allocation_is_a_take_back_unless_we_cleared_it() -> None:
    """The cycle looks for another node only when somebody else took the allocation."""
    world = ObservedCluster()
    raw = world.claim("c")

    def cleared() -> list[tuple[str, bool]]:
        world.snapshot.deallocations.clear()
        del raw["status"]
        world.see(CLAIMS, raw)
        return [(event.claim.name, event.is_refusal_for("pod")) for event in world.snapshot.deallocations]

    world.allocate(raw, "n1", "gpu-0")
    assert cleared() == [("c", True)]

    world.allocate(raw, "n1", "gpu-0")
    world.snapshot.clearing(raw["metadata"]["uid"])
    assert cleared() == [("c", False)]

    world.allocate(raw, "n1", "gpu-0")
    world.snapshot.clearing(raw["metadata"]["uid"])
    world.snapshot.kept(raw["metadata"]["uid"])
    assert cleared() == [("c", True)]


def test_a_take_back_that_the_watch_merged_with_our_write_is_seen() -> None:
    """After a relist the claim may never have been shown allocated."""
    world = ObservedCluster()
    raw = world.claim("c")
    claim = world.claim_value(raw)
    assumption = world.snapshot.assume(claim, answer())
    assert world.snapshot.sent(assumption, claim.version)
    assumption.confirmed = True
    world.version += 1
    world.see(CLAIMS, raw)
    assert [event.claim.name for event in world.snapshot.deallocations] == ["c"]
    assert world.snapshot.state.holders(CARD) == ()


def test_a_late_deletion_of_an_old_object_leaves_its_namesake_alone() -> None:
    """Objects are known by UID."""
    world = ObservedCluster()
    old = world.claim("c", uid="old")
    new = world.claim("c", uid="new")
    world.gone(CLAIMS, old)
    found = world.snapshot.claim("team", "c")
    assert found is not None
    assert found.uid == new["metadata"]["uid"]


def test_an_older_version_does_not_replace_a_newer_one() -> None:
    """Two feeds and reconnects deliver twice and out of order."""
    world = ObservedCluster()
    raw = world.claim("c")
    older = {**raw, "metadata": {**raw["metadata"]}}
    world.allocate(raw, "n1", "gpu-0")
    world.snapshot.observe(CLAIMS, "MODIFIED", {**older, "status": {}})
    assert world.claim_value(raw).allocation is not None


def test_a_broken_object_is_left_out_and_remembered_with_its_field() -> None:
    """Everything else goes on; the next good version heals it."""
    world = ObservedCluster()
    raw = world.slice("n1", "s", {"devices": [{"name": 7}]}, 1)
    (broken,) = world.snapshot.broken.values()
    assert broken.error.field == "spec.devices[0].name"
    assert [(each.devices, each.unread) for each in world.snapshot.slices.values()] == [((), True)]
    raw["spec"]["devices"] = [{"name": "d"}]
    world.see(SLICES, raw)
    assert not world.snapshot.broken
    assert [len(each.devices) for each in world.snapshot.slices.values()] == [1]


def test_heartbeats_of_nodes_wake_nobody() -> None:
    """A status update that changes nothing we use is no change."""
    world = ObservedCluster()
    raw = world.node("n1")
    wakes, epoch = world.wakes, world.snapshot.retry_epoch
    raw["status"]["conditions"] = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "now"}]
    world.see(NODES, raw)
    assert (world.wakes, world.snapshot.retry_epoch) == (wakes, epoch)
    raw["spec"] = {"unschedulable": True}
    world.see(NODES, raw)
    assert world.wakes > wakes


def test_a_version_of_a_pod_that_says_nothing_new_leaves_the_pod_as_it_is() -> None:
    """Who waits is known by the object that the snapshot has: kubelet and kube-scheduler write conditions that nobody reads."""
    world = ObservedCluster()
    raw = world.pod("p", "c", gates=[GATE])
    raw["status"] = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    world.see(PODS, raw)
    pod, epoch = world.pod_value(raw), world.snapshot.retry_epoch
    woken, changes = (world.wakes, world.later), world.snapshot.changes.pods.end
    raw["status"] = {
        "conditions": [{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "False"}],
        "nominatedNodeName": "n1",
        "containerStatuses": [{"name": "main", "restartCount": 3}],
    }
    raw["metadata"]["managedFields"] = [{"manager": "kubelet", "operation": "Update"}]
    world.see(PODS, raw)
    assert world.pod_value(raw) is pod
    assert (world.wakes, world.later) == woken
    assert (world.snapshot.changes.pods.end, world.snapshot.retry_epoch) == (changes, epoch)


@pytest.mark.parametrize(("field", "part"), PARTS.items())
def test_a_version_of_a_pod_in_which_something_differs_that_is_read_is_a_change(
    field: str, part: Json
) -> None:
    """Each field counts, since somebody reads it."""
    world = ObservedCluster()
    raw = world.pod("p", "c")
    before, changes = world.pod_value(raw), world.snapshot.changes.pods.end
    later = {key: {**raw.get(key, {}), **part.get(key, {})} for key in ("metadata", "spec", "status")}
    world.see(PODS, later)
    now = world.pod_value(raw)
    assert getattr(now, field) != getattr(before, field)
    assert now is not before
    assert world.snapshot.changes.pods.end > changes


def test_every_field_of_a_pod_that_can_change_is_tried() -> None:
    """A field that is read tomorrow needs a line above."""
    assert {field.name for field in fields(Pod)} == PARTS.keys() | {"namespace", "name", "uid", "created"}


def test_an_object_that_has_become_readable_is_a_change() -> None:
    """Also where the good version is the one of before: it counted as broken in between."""
    world = ObservedCluster()
    raw = world.pod("p", "c")
    good = dict(raw["spec"])
    raw["spec"] = good | {"priority": "high"}
    world.see(PODS, raw)
    assert len(world.snapshot.broken) == 1
    changes = world.snapshot.changes.pods.end
    raw["spec"] = good
    world.see(PODS, raw)
    assert not world.snapshot.broken
    assert world.snapshot.changes.pods.end > changes


def test_what_the_watch_repeats_of_our_own_write_changes_nothing() -> None:
    """The answer to a write is observed, and the same version comes by the watch."""
    world = ObservedCluster()
    raw = world.claim("c")
    wakes, changes = world.wakes, world.snapshot.changes.claims.end
    world.snapshot.observe(CLAIMS, "MODIFIED", raw)
    assert (world.wakes, world.snapshot.changes.claims.end) == (wakes, changes)


def test_two_allocations_of_one_device_are_seen_until_one_goes() -> None:
    """The index behind the overlap detector."""
    world = ObservedCluster()
    one, two = world.claim("one"), world.claim("two")
    world.allocate(one, "n1", "gpu-0")
    assert list(world.snapshot.claim_index.contended) == []
    world.allocate(two, "n1", "gpu-0")
    assert list(world.snapshot.claim_index.contended) == [CARD]
    world.gone(CLAIMS, one)
    assert list(world.snapshot.claim_index.contended) == []


@pytest.mark.parametrize(
    ("reserved", "refused"),
    [([], True), (["uid-team-pods-p"], True), (["uid-of-a-pod-that-is-gone"], False)],
)
def test_only_the_scheduler_takes_back(reserved: list[str], refused: bool) -> None:  # noqa: FBT001
    """When the last pod of a claim is gone, controller-manager clears it; the next pod is not refused by that."""
    world = ObservedCluster()
    raw, pod = world.claim("c"), world.pod("p", "c")
    consumers = [{"resource": "pods", "name": "p", "uid": uid} for uid in reserved]
    world.allocate(raw, "n1", "gpu-0", reservedFor=consumers)
    raw["status"] = {}
    world.see(CLAIMS, raw)
    (event,) = world.snapshot.deallocations
    assert event.is_refusal_for(world.pod_value(pod).uid) is refused


def test_users_of_a_claim_follow_the_pods() -> None:
    """By the claim's name, as pods do it; gone when the pod is gone."""
    world = ObservedCluster()
    claim = world.claim("c")
    pod = world.pod("p", "c")
    assert [user.name for user in world.snapshot.users(world.claim_value(claim))] == ["p"]
    world.gone(PODS, pod)
    assert list(world.snapshot.users(world.claim_value(claim))) == []


def test_what_is_gone_does_not_come_back_by_a_late_answer() -> None:
    """The answer to our own write may arrive after the watch has told the end of the object."""
    world = ObservedCluster()
    raw = world.claim("c")
    world.gone(CLAIMS, raw)
    world.see(CLAIMS, raw)
    assert not world.snapshot.claims
