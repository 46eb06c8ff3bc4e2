"""What the agent knows of its Partition objects, in whatever order it hears of them."""

from typing import Any

import pytest

from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.report import PartitionOutcome, status, status_patch
from apportion.api.partition import Partition, PartitionStatus, Phase
from apportion.cluster.kinds import PARTITIONS


def partition(version: int, **metadata: Any) -> dict[str, Any]:
    """Return a Partition object in one version."""
    return {
        "metadata": {"name": "p", "uid": "u", "resourceVersion": str(version), "generation": 1} | metadata,
        "spec": {
            "nodeName": "node-a",
            "driver": "gpu.apportion.dev",
            "pool": "node-a",
            "device": "gpu-0-mig-1g10gb-19-3",
            "parent": "gpu-0",
            "profile": "1g.10gb",
            "origin": "Warm",
        },
    }


def test_the_answer_to_a_write_does_not_revive_an_object_that_is_gone() -> None:
    """The watch was faster than the answer to the write that took the last finalizer."""
    desired = DesiredPartitions()
    desired.observe(PARTITIONS, "ADDED", partition(1))
    desired.observe(PARTITIONS, "DELETED", partition(2))
    desired.observe(PARTITIONS, "MODIFIED", partition(2))
    assert desired.all() == ()


def test_an_older_event_does_not_undo_a_newer_answer() -> None:
    """Answers and events come on two roads."""
    desired = DesiredPartitions()
    desired.observe(PARTITIONS, "ADDED", partition(9, generation=2))
    desired.observe(PARTITIONS, "MODIFIED", partition(8))
    assert [p.metadata.generation for p in desired.all()] == [2]


def test_a_restored_history_replaces_what_was_newer_and_what_was_gone() -> None:
    """Etcd was restored: the holder is who it was then, and a UID comes back."""
    heard: list[str] = []
    desired = DesiredPartitions(lambda changed: heard.append(changed.metadata.resource_version))
    desired.observe(PARTITIONS, "ADDED", partition(8, generation=2))
    desired.observe(PARTITIONS, "ADDED", partition(9, uid="gone"))
    desired.observe(PARTITIONS, "DELETED", partition(9, uid="gone"))
    heard.clear()
    desired.observe(PARTITIONS, "RESTORED", partition(3))
    desired.observe(PARTITIONS, "RESTORED", partition(4, uid="gone"))
    assert [p.metadata.resource_version for p in desired.all()] == ["3", "4"]
    assert heard == ["3", "4"]
    desired.observe(PARTITIONS, "MODIFIED", partition(5, uid="gone"))
    assert [p.metadata.resource_version for p in desired.all()] == ["3", "5"]


def test_what_was_gone_comes_back_in_a_version_written_since_the_restore() -> None:
    """The operator was faster than our list."""
    desired = DesiredPartitions()
    desired.observe(PARTITIONS, "ADDED", partition(9))
    desired.observe(PARTITIONS, "DELETED", partition(9))
    desired.observe(PARTITIONS, "ADDED", partition(1_000_000_001))
    assert [p.metadata.resource_version for p in desired.all()] == ["1000000001"]


def test_only_what_asks_for_something_else_wakes_the_worker() -> None:
    """The echo of our own status would wake its writer for ever; a new holder, a deletion and an end do."""
    heard: list[Partition] = []
    desired = DesiredPartitions(heard.append)
    desired.observe(PARTITIONS, "ADDED", partition(1))
    desired.observe(PARTITIONS, "MODIFIED", partition(2) | {"status": {"phase": "Ready"}})
    assert [p.metadata.resource_version for p in heard] == ["1"]
    desired.observe(PARTITIONS, "MODIFIED", partition(3, generation=2))
    desired.observe(
        PARTITIONS, "MODIFIED", partition(4, generation=2, deletionTimestamp="2026-01-01T00:00:00Z")
    )
    desired.observe(PARTITIONS, "DELETED", partition(5))
    assert [p.metadata.resource_version for p in heard] == ["1", "3", "4", "4"]


def test_an_unreadable_object_is_left_out_and_the_others_are_served() -> None:
    """An older schema may have let it in."""
    desired = DesiredPartitions()
    broken = partition(1, uid="other")
    broken["spec"]["device"] = 7
    desired.observe(PARTITIONS, "ADDED", broken)
    desired.observe(PARTITIONS, "ADDED", partition(2))
    assert [p.metadata.uid for p in desired.all()] == ["u"]


def test_a_broken_object_is_named_with_field_and_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """A person finds the object by the log line."""
    broken = partition(1)
    broken["spec"]["device"] = 7
    DesiredPartitions().observe(PARTITIONS, "ADDED", broken)
    line = capsys.readouterr().out
    assert "partition.unreadable" in line
    assert "spec.device: Input should be a valid string" in line


def test_a_status_that_cannot_be_read_counts_as_empty() -> None:
    """The status is the agent's own; another release may have written a phase that this one does not know."""
    desired = DesiredPartitions()
    desired.observe(PARTITIONS, "ADDED", partition(1) | {"status": {"phase": "Polished", "uuid": "MIG-1"}})
    assert [p.status for p in desired.all()] == [PartitionStatus()]


def test_a_status_that_is_as_wanted_needs_no_patch() -> None:
    """Empty and absent are the same; times are compared as the API server writes them."""
    outcome = PartitionOutcome(Phase.IDLE, "Cut")
    read = Partition.from_json(partition(1))
    now = "2026-01-01T00:00:00Z"
    wanted = status(read, None, outcome, users=[], now=now)
    assert wanted.keys() >= status_patch(read, wanted).keys() > {"phase", "conditions"}
    there = {key: value for key, value in wanted.items() if value is not None}
    read = Partition.from_json(partition(2) | {"status": there})
    assert status_patch(read, status(read, None, outcome, users=[], now="2026-02-02T00:00:00Z")) == {}


def test_ids_of_a_partition_that_is_gone_are_taken_from_the_status() -> None:
    """A merge patch removes only what it names."""
    made = {"phase": "Ready", "instance": {"gpuInstance": "1", "computeInstance": "0"}, "uuid": "MIG-1"}
    read = Partition.from_json(partition(2) | {"status": made})
    wanted = status(
        read, None, PartitionOutcome(Phase.PENDING, "NoRoom"), users=[], now="2026-01-01T00:00:00Z"
    )
    patch = status_patch(read, wanted)
    assert (patch["instance"], patch["uuid"]) == ({"gpuInstance": None, "computeInstance": None}, None)
