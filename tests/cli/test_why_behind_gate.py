"""`apportion why pod` of a pod whose claims have their devices, and that waits behind its gate all the same: it is not called served."""

from pathlib import Path
from typing import Any

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PARTITIONS, PODS, POLICIES
from tests.cli.whyasked import events, why
from tests.cli.worlds import Cluster, profile_request, two_cards
from tests.clients import unanswered
from tests.observedcluster import GPU, request

__all__ = ["unanswered"]

Json = dict[str, Any]
HALF = "gpu-0-mig-3g40gb-9-4"


def network(cluster: Cluster) -> None:
    """Two pods name one claim with a network device, and the first of them runs."""
    parameters = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
    config = {"opaque": {"driver": "rdma.apportion.dev", "parameters": parameters}}
    claim = cluster.allocate(cluster.claim("c"), "n2", "gpu-0")
    claim["status"]["allocation"]["devices"]["config"] = [{"source": "FromClaim", **config}]
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "first", "uid": "uid-team-pods-first"}]
    cluster.see(CLAIMS, claim)
    cluster.pod("first", "c", spec={"nodeName": "n2"})


def uncut(cluster: Cluster) -> None:
    """The claim looks with admin access at a partition that nobody has."""
    claim = cluster.allocate(cluster.claim("c", profile_request("3g.40gb")), "n2", HALF)
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    cluster.see(CLAIMS, claim)


def unreadable(cluster: Cluster) -> None:
    """Nobody knows whether a policy of a later release covers the class of the claim, which kube-scheduler serves else."""
    cluster.device_class("theirs", "false", other="label")
    cluster.claim("c", request("theirs"))
    cluster.see(POLICIES, {"metadata": {"name": "p"}, "spec": {"deviceClasses": {"names": "theirs"}}})


@pytest.mark.parametrize(
    ("make", "reason"),
    [(network, "NetworkDeviceTaken"), (uncut, "PartitionNotCut"), (unreadable, "PolicyUnreadable")],
)
async def test_the_reason_is_that_of_the_operators_event(
    tmp_path: Path, unanswered: Client, make: Any, reason: str
) -> None:
    """In its words, and with exit status 1."""
    cluster = two_cards()
    make(cluster)
    cluster.pod("waits", "c", gates=[GATE])
    found = why(tmp_path, cluster, "pod", "waits")
    assert found["reason"] == reason
    assert (found["reason"], found["message"]) in events(cluster, unanswered, "waits")


@pytest.mark.parametrize("phase", ["", "Pending", "Failed"])
def test_a_partition_that_is_not_cut_yet_is_named(tmp_path: Path, phase: str) -> None:
    """With its phase, which `kubectl describe partition` says more about."""
    cluster = two_cards()
    cluster.allocate(cluster.claim("c", profile_request("3g.40gb")), "n2", HALF)
    cluster.pod("waits", "c", gates=[GATE])
    if phase:
        cluster.see(PARTITIONS, partition(phase))
    found = why(tmp_path, cluster, "pod", "waits")
    assert found["reason"] == "NotReady"
    said = (
        f"Partition n2-{HALF} is {phase}"
        if phase
        else "its partition is not made yet, or was not handed over yet"
    )
    assert found["message"] == f"claim team/c: {said}; the pod's gate goes when it is cut"


def test_a_partition_that_is_left_on_the_card_is_named(tmp_path: Path) -> None:
    """Nobody holds it, and its agent has not removed it yet."""
    cluster = two_cards()
    cluster.allocate(cluster.claim("c"), "n2", "gpu-0")
    cluster.pod("waits", "c", gates=[GATE])
    left = partition("Releasing")
    del left["spec"]["holder"]
    cluster.see(PARTITIONS, left)
    found = why(tmp_path, cluster, "pod", "waits")
    said = f"claim team/c: Partition n2-{HALF} is on its card; the pod's gate goes when it is removed"
    assert (found["reason"], found["message"]) == ("NotReady", said)


def test_one_of_a_group_waits_for_the_others(tmp_path: Path) -> None:
    """It has its devices, and the others have none."""
    cluster = two_cards()
    cluster.allocate(cluster.claim("c"), "n2", "gpu-0")
    raw = cluster.pod("waits", "c", gates=[GATE])
    raw["metadata"]["labels"] = {"apportion.dev/pod-group": "g"}
    raw["metadata"]["annotations"] = {"apportion.dev/pod-group-min-count": "2"}
    cluster.see(PODS, raw)
    found = why(tmp_path, cluster, "pod", "waits")
    assert found["reason"] == "NotReady"
    assert found["message"] == (
        "it has its devices, and group team/g waits until 2 of its pods can start together"
    )


def test_a_pod_whose_gate_is_about_to_go_is_served(tmp_path: Path) -> None:
    """As one that has none any more: a whole card, and a partition that is cut."""
    cluster = two_cards()
    cluster.allocate(cluster.claim("c", profile_request("3g.40gb")), "n2", HALF)
    cluster.see(PARTITIONS, partition("Ready"))
    cluster.pod("soon", "c", gates=[GATE])
    assert why(tmp_path, cluster, "pod", "soon")["served"] is True
    cluster.allocate(cluster.claim("d", profile_request("3g.40gb")), "n2", "gpu-0-mig-3g40gb-9-0")
    cluster.pod("open", "d")
    assert why(tmp_path, cluster, "pod", "open")["served"] is True


def partition(phase: str) -> Json:
    """Return the Partition of claim `c`."""
    holder = {"kind": "ResourceClaim", "namespace": "team", "name": "c", "uid": "uid-team-resourceclaims-c"}
    spec = {
        "nodeName": "n2", "pool": "n2", "parent": "gpu-0", "device": HALF, "driver": GPU, "profile": "3g.40gb", "origin": "Claim",
        "placement": {"start": 4, "size": 4}, "holder": holder,
    }  # fmt: skip
    return {"metadata": {"name": f"n2-{HALF}"}, "spec": spec, "status": {"phase": phase}}
