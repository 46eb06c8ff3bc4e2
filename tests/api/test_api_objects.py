"""Objects of users are read as values: defaults, errors that name the field, unknown fields."""

from datetime import timedelta
from typing import Any

import pytest

from apportion.api.layout import PartitionLayout
from apportion.api.model import Model
from apportion.api.partition import HolderKind, Origin, Partition, Phase
from apportion.api.policy import DEFAULT_POLICY, AllocationPolicy, QueueOrder, Strategy
from apportion.errors import BrokenInput
from tests.api.objects import PARTITION, layout, policy


def test_a_partition_is_read_and_written_without_loss() -> None:
    """JSON that is read as a value is written as the same JSON."""
    partition = Partition.from_json(PARTITION)

    assert partition.spec.origin is Origin.CLAIM
    assert partition.spec.holder is not None
    assert partition.spec.holder.kind is HolderKind.CLAIM
    assert partition.status.phase is Phase.READY
    written = partition.to_json()
    for part in ("spec", "status"):
        assert {key: value for key, value in written[part].items() if value not in ({}, [])} == PARTITION[
            part
        ]


def test_an_idle_partition_has_no_holder_in_its_json() -> None:
    """Absent means idle; null would count as a change in every comparison."""
    raw = {**PARTITION, "spec": {key: value for key, value in PARTITION["spec"].items() if key != "holder"}}

    assert "holder" not in Partition.from_json(raw).to_json()["spec"]


def test_unknown_fields_are_ignored() -> None:
    """An older apportion can read the objects of a newer one."""
    raw = {**PARTITION, "spec": {**PARTITION["spec"], "colour": "red"}, "extra": 1}

    assert Partition.from_json(raw) == Partition.from_json(PARTITION)


def test_a_layout_gets_defaults() -> None:
    """Only the partitions are needed; classes are made, one node at a time changes, idle cards only."""
    spec = PartitionLayout.from_json(layout()).spec

    assert spec.device_classes.create
    assert spec.rollout.max_unavailable == 1
    assert spec.rollout.only_idle
    assert spec.node_selector.matches({"any": "node"})


def test_a_policy_gets_defaults() -> None:
    """The defaults that the schema publishes are those that the models use."""
    spec = AllocationPolicy.from_json(policy()).spec

    assert spec.strategy is Strategy.LEAST_FRAGMENTATION
    assert spec.ladder is None
    assert spec.partitions.idle_timeout == timedelta(minutes=5)
    assert spec.partitions.wait_for_ready
    assert spec.unused_timeout == timedelta(minutes=1)
    assert spec.queue.order is QueueOrder.PRIORITY


def test_classes_without_a_policy_are_found_by_their_label() -> None:
    """The default policy covers exactly the classes with the managed label."""
    selector = DEFAULT_POLICY.device_classes.selector

    assert selector is not None
    assert selector.matches({"apportion.dev/managed": "true"})
    assert not selector.matches({"apportion.dev/managed": "false"})


@pytest.mark.parametrize(
    ("model", "raw", "field", "reason"),
    [
        pytest.param(
            Partition,
            {**PARTITION, "spec": {**PARTITION["spec"], "placement": {"start": -1, "size": 1}}},
            "spec.placement.start",
            "greater than or equal to 0",
            id="a placement before the first slice",
        ),
        pytest.param(
            Partition,
            {**PARTITION, "spec": {**PARTITION["spec"], "origin": "Wish"}},
            "spec.origin",
            "'Claim', 'Layout' or 'Warm'",
            id="an unknown origin",
        ),
        pytest.param(
            PartitionLayout,
            layout(partitions=[{"profile": "1g.10gb"}]),
            "spec.partitions[0]",
            "exactly one of count and placements",
            id="neither count nor placements",
        ),
        pytest.param(
            PartitionLayout,
            layout(partitions=[{"profile": "1g.10gb", "count": 1, "placements": [{"start": 0}]}]),
            "spec.partitions[0]",
            "exactly one of count and placements",
            id="both count and placements",
        ),
        pytest.param(
            PartitionLayout,
            layout(rollout={"maxUnavailable": "half"}),
            "spec.rollout.maxUnavailable",
            "neither a number from 1 nor a percentage",
            id="a share that is no percentage",
        ),
        pytest.param(
            AllocationPolicy,
            policy(deviceClasses={}),
            "spec.deviceClasses",
            "names or selector is needed",
            id="a policy for nothing",
        ),
        pytest.param(
            AllocationPolicy,
            policy(ladder=[{"attribute": "numaNode"}]),
            "spec.ladder[0].attribute",
            "pattern",
            id="an attribute without a domain",
        ),
        pytest.param(
            AllocationPolicy,
            policy(demand={"source": "Profiles"}),
            "spec.demand",
            "source Profiles needs profiles",
            id="a mix without profiles",
        ),
        pytest.param(
            AllocationPolicy,
            policy(partitions={"idleTimeout": "five minutes"}),
            "spec.partitions.idleTimeout",
            "is not a duration",
            id="a timeout in words",
        ),
        pytest.param(
            AllocationPolicy,
            policy(partitions={"warm": [{"profile": "1g.10gb", "count": -1}]}),
            "spec.partitions.warm[0].count",
            "greater than or equal to 0",
            id="less than no warm partitions",
        ),
    ],
)
def test_a_broken_object_is_refused_with_field_and_reason(
    model: type[Model],
    raw: dict[str, Any],
    field: str,
    reason: str,
) -> None:
    """The error names the field by its path in the YAML."""
    with pytest.raises(BrokenInput) as refusal:
        model.from_json(raw)

    assert refusal.value.field == field
    assert reason in refusal.value.reason


def test_a_refusal_counts_the_further_mistakes() -> None:
    """One reason is shown, with the number of further ones."""
    raw = {**PARTITION, "spec": {**PARTITION["spec"], "device": "GPU 0", "parent": "GPU 0"}}

    with pytest.raises(BrokenInput, match=r"spec\.device: .* \(and 1 more\)"):
        Partition.from_json(raw)
