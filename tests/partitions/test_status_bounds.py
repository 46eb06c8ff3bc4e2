"""Statuses that hold what the API server takes, however much there is to say: one that is refused would be written in vain for ever."""

from typing import Any

from apportion.api.layout import PartitionLayoutStatus
from apportion.api.policy import AllocationPolicyStatus
from apportion.cluster.kinds import LAYOUTS
from apportion.partitions.status import layout_status, policy_status
from testbed.cycle import now
from tests.observedcluster import ObservedCluster
from tests.partitions.layoutworld import cards, plan


def messages(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["message"] for each in status["conditions"]}


def test_a_layout_that_many_nodes_with_long_names_keep_waiting_has_a_status() -> None:
    """Ten nodes are named, each with what its card is used for."""
    names = [f"n{number}.{'x' * 230}" for number in range(20)]
    world = cards(*names)
    world.layout({"profile": "3g.40gb", "count": 3})
    status = layout_status(plan(world), now())
    text = messages(status)["Ready"]
    assert (len(text), text[-3:]) == (4096, "...")
    PartitionLayoutStatus.from_json(status)


def test_a_layout_with_a_long_name_names_no_class_that_there_cannot_be() -> None:
    """The name of the class has the profile's behind the layout's."""
    world = cards()
    raw = world.layout(name="short")
    world.gone(LAYOUTS, raw)
    raw["metadata"] |= {"name": "l" * 250, "uid": "long"}
    world.see(LAYOUTS, raw)
    status = layout_status(plan(world), now())
    assert PartitionLayoutStatus.from_json(status).device_classes == ()


def test_a_policy_that_overlaps_another_one_in_many_classes_has_a_status() -> None:
    """An older one has them all; a younger one that owns more than a list takes names the first."""
    world = ObservedCluster()
    classes = [f"class-{number:04}-{'y' * 50}" for number in range(1500)]
    for name in classes:
        world.device_class(name)
    every = {"selector": {"matchLabels": {"apportion.dev/managed": "true"}}}
    for name, made in (("older", "2026-01-01"), ("younger", "2026-02-01")):
        raw = world.policy(name, deviceClasses=every)
        raw["metadata"]["creationTimestamp"] = f"{made}T00:00:00Z"
        world.policy(name, deviceClasses=every)
    found = {
        policy.metadata.name: policy_status(policy, world.snapshot, now())
        for policy in world.snapshot.policies.values()
    }
    assert len(AllocationPolicyStatus.from_json(found["older"]).managed_classes) == 1024
    assert AllocationPolicyStatus.from_json(found["younger"]).managed_classes == ()
    assert len(messages(found["younger"])["Accepted"]) == 4096
