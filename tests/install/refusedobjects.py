"""Objects that the API server has to refuse, with what it says."""

import pytest

from tests.install.writtenobjects import RECLAIMS, counted, held_share, rung

REFUSED = [
    pytest.param(
        "Partition",
        {"placement": {"start": -1, "size": 1}},
        "spec.placement.start",
        id="before the first slice",
    ),
    pytest.param(
        "Partition",
        {"placement": {"start": 0, "size": 0}},
        "spec.placement.size",
        id="a partition of nothing",
    ),
    pytest.param("Partition", {"origin": "Wish"}, "spec.origin", id="an unknown origin"),
    pytest.param("Partition", {"device": "GPU_0"}, "spec.device", id="a device that is no label"),
    pytest.param("Partition", {"profile": None}, "spec.profile", id="a partition without profile"),
    pytest.param(
        "Partition",
        {"holder": {"kind": "ResourceClaim", "name": "c", "uid": "u"}},
        "a ResourceClaim has a namespace",
        id="a claim without namespace",
    ),
    pytest.param(
        "Partition",
        {"origin": "Layout"},
        "is held by its PartitionLayout",
        id="a layout's partition held by a claim",
    ),
    pytest.param(
        "Partition",
        {"holder": {"kind": "PartitionLayout", "name": "l", "uid": "u"}},
        "any other by a ResourceClaim",
        id="a claim's partition held by a layout",
    ),
    pytest.param("PartitionLayout", {"partitions": []}, "spec.partitions", id="a layout of nothing"),
    pytest.param(
        "PartitionLayout",
        {"partitions": [{"profile": "p"}]},
        "exactly one of count and placements",
        id="neither",
    ),
    pytest.param(
        "PartitionLayout",
        {"partitions": [{"profile": "p", "count": 1, "placements": [{"start": 0}]}]},
        "exactly one of count and placements",
        id="both",
    ),
    pytest.param(
        "PartitionLayout",
        {"partitions": [{"profile": "p", "count": 0}]},
        "spec.partitions[0].count",
        id="a count of 0",
    ),
    pytest.param(
        "PartitionLayout",
        {"partitions": [{"profile": "p", "count": 1}, {"profile": "p", "count": 2}]},
        "Duplicate value",
        id="a profile twice",
    ),
    pytest.param(
        "PartitionLayout",
        {"partitions": [{"profile": "p", "placements": [{"start": 0}, {"start": 0}]}]},
        "Duplicate value",
        id="a place twice",
    ),
    pytest.param(
        "PartitionLayout",
        {"rollout": {"maxUnavailable": 0}},
        "spec.rollout.maxUnavailable",
        id="no node at a time",
    ),
    pytest.param(
        "PartitionLayout", {"rollout": {"maxUnavailable": "half"}}, "spec.rollout.maxUnavailable", id="half"
    ),
    pytest.param(
        "PartitionLayout",
        {"nodeSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
        "In and NotIn need values",
        id="In nothing",
    ),
    pytest.param("AllocationPolicy", {"deviceClasses": {}}, "names or selector is needed", id="for no class"),
    pytest.param(
        "AllocationPolicy",
        {"deviceClasses": {"names": []}},
        "names or selector is needed",
        id="for an empty list",
    ),
    pytest.param("AllocationPolicy", {"strategy": "Best"}, "spec.strategy", id="an unknown strategy"),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [{"attribute": "numaNode"}]},
        "spec.ladder[0].attribute",
        id="no domain",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [{"attribute": f"{'a' * 64}.dev/x"}]},
        "at most 63 characters",
        id="a long domain",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [{"attribute": "a.dev/x"}, {"attribute": "a.dev/x"}]},
        "an attribute may appear once",
        id="a rung twice",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [rung(perDriver=[{"driver": "b.dev", "attribute": "b.dev/x"}] * 2)]},
        "spec.ladder[0].perDriver[1]",
        id="two names for one driver",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [rung(perDriver=[{"driver": "b.dev", "attribute": f"{'a' * 64}.dev/x"}])]},
        "at most 63 characters",
        id="a long domain of one driver",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [rung(fill={"order": [{"take": 0, "free": [1]}]})]},
        "spec.ladder[0].fill.order[0].take",
        id="taking nothing",
    ),
    pytest.param(
        "AllocationPolicy",
        {"ladder": [rung(fill={"order": [{"take": 1, "free": [2, 2]}]})]},
        "spec.ladder[0].fill.order[0].free[1]",
        id="one count twice",
    ),
    pytest.param(
        "AllocationPolicy", {"ladder": [rung(split="Odd")]}, "spec.ladder[0].split", id="an odd split"
    ),
    pytest.param("AllocationPolicy", {"ladderScope": "Rack"}, "spec.ladderScope", id="an unknown scope"),
    pytest.param(
        "AllocationPolicy", {"demand": {"source": "Profiles"}}, "source Profiles needs profiles", id="no mix"
    ),
    pytest.param(
        "AllocationPolicy",
        {"demand": {"profiles": [{"profile": "p"}]}},
        "source Learned takes none",
        id="a mix that is not used",
    ),
    pytest.param(
        "AllocationPolicy", {"unusedTimeout": "1 minute"}, "spec.unusedTimeout", id="a timeout in words"
    ),
    pytest.param("AllocationPolicy", {"unusedTimeout": "169h"}, "longer than a week", id="more than a week"),
    pytest.param(
        "AllocationPolicy",
        {"partitions": {"warm": [{"profile": "p", "count": -1}]}},
        "spec.partitions.warm[0].count",
        id="less than no warm partitions",
    ),
    pytest.param(
        "AcceleratorQuota",
        counted(guaranteed=3, limit=2),
        "guaranteed must not exceed limit",
        id="a limit below the guarantee",
    ),
    pytest.param(
        "AcceleratorQuota",
        counted(guaranteed="1Gi", limit="1G"),
        "guaranteed must not exceed limit",
        id="a limit below the guarantee, in other units",
    ),
    pytest.param("DeviceHold", {"purpose": "Wish"}, "spec.purpose", id="a purpose that is not known"),
    pytest.param(
        "DeviceHold",
        {"devices": [held_share("nonsense")]},
        "spec.devices[0].consumedCapacity.memory",
        id="a share of an amount that is none",
    ),
    pytest.param(
        "DeviceHold",
        {"devices": [held_share("-1")]},
        "spec.devices[0].consumedCapacity.memory",
        id="a share below nothing",
    ),
    pytest.param("DefragPolicy", {"free": {}}, "spec.free", id="a policy that wants nothing"),
    pytest.param(
        "DefragPolicy",
        {"free": {"wholeCards": {"deviceClass": "gpu"}, "roomFor": {"deviceClass": "gpu"}}},
        "spec.free",
        id="a policy that wants two things",
    ),
    pytest.param("DefragPolicy", {"schedule": None}, "spec.schedule", id="a policy without a schedule"),
    pytest.param("DefragPolicy", {"mode": "Hope"}, "spec.mode", id="a mode that is not known"),
    pytest.param("DefragPolicy", {"maxRestarts": 65}, "spec.maxRestarts", id="too many restarts"),
    pytest.param("DefragPolicy", {"timeZone": "../zone"}, "spec.timeZone", id="a time zone that is a path"),
    pytest.param("AcceleratorQuota", counted(limit=-1), "spec.resources[0].limit", id="a negative limit"),
    pytest.param("AcceleratorQuota", counted(limit="much"), "spec.resources[0].limit", id="a limit in words"),
    pytest.param("AcceleratorQuota", counted(weight=0), "spec.resources[0].weight", id="no weight"),
    pytest.param(
        "AcceleratorQuota",
        {"resources": [{"name": "r", "limit": 1}]},
        "one of deviceClass, profile, model and capacity is needed",
        id="a limit of nothing",
    ),
    pytest.param(
        "AcceleratorQuota",
        {"resources": [*counted()["resources"] * 2]},
        "Duplicate value",
        id="a resource twice",
    ),
    pytest.param("AcceleratorQuota", {"resources": []}, "spec.resources", id="a quota of nothing"),
    pytest.param("AcceleratorQuota", {"namespaceSelector": None}, "spec.namespaceSelector", id="for nobody"),
    pytest.param("AcceleratorQuota", {"cohort": "a/b"}, "spec.cohort", id="a cohort that is a path"),
    pytest.param(
        "AcceleratorQuota",
        RECLAIMS,
        "reclaimWithinCohort needs a cohort",
        id="a quota that reclaims from nobody",
    ),
]

IMMUTABLE = [
    {"nodeName": "n2"},
    {"driver": "npu.apportion.dev"},
    {"pool": "n2"},
    {"device": "gpu-1"},
    {"parent": "gpu-1"},
    {"profile": "2g.20gb"},
    {"origin": "Warm"},
    {"placement": {"start": 4}},
    {"placement": None},
]
