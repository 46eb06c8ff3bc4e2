"""What the agent knows of its Partition objects, in whatever order it hears of them."""

from typing import Any

from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.api.partition import Partition
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
