"""Objects that users may write, and such that the API server has to refuse, with what it says."""

from pathlib import Path

import pytest
import yaml

from testbed.api import Json
from testbed.controlplane import ControlPlane

SHIPPED = Path(__file__).parents[2] / "manifests" / "policies"
PARTITION: Json = {
    "nodeName": "n1",
    "driver": "gpu.apportion.dev",
    "pool": "n1",
    "device": "gpu-0-mig-1g10gb-19-3",
    "parent": "gpu-0",
    "profile": "1g.10gb",
    "placement": {"start": 3, "size": 1},
    "origin": "Claim",
    "holder": {"kind": "ResourceClaim", "namespace": "team", "name": "c1", "uid": "c-1"},
}
LAYOUT: Json = {"partitions": [{"profile": "1g.10gb", "count": 7}]}
POLICY: Json = {"deviceClasses": {"names": ["mig.apportion.dev"]}}
QUOTA: Json = {
    "namespaceSelector": {"matchLabels": {"team": "a"}},
    "resources": [{"name": "gpus", "deviceClass": "gpu.apportion.dev", "guaranteed": 2, "limit": 4}],
}
RECLAIMS: Json = {"reclaimWithinCohort": "Any"}
KINDS = {
    "Partition": ("partitions", PARTITION),
    "PartitionLayout": ("partitionlayouts", LAYOUT),
    "AllocationPolicy": ("allocationpolicies", POLICY),
    "AcceleratorQuota": ("acceleratorquotas", QUOTA),
}


def without(spec: Json, *names: str) -> Json:
    """Return a spec that lacks some fields."""
    return {name: value for name, value in spec.items() if name not in names}


def counted(**more: object) -> Json:
    """Return the resources of a quota with one entry."""
    return {"resources": [{"name": "r", "deviceClass": "gpu.apportion.dev", **more}]}


def rung(**more: object) -> Json:
    """Return a level of a ladder."""
    return {"attribute": "a.dev/x", **more}


ACCEPTED = [
    pytest.param("Partition", {}, id="a partition for a claim"),
    pytest.param("Partition", {"holder": None, "origin": "Warm"}, id="a warm partition that nobody holds"),
    pytest.param("Partition", {"placement": None, "profile": "vir05_1c_16g"}, id="a vNPU without placement"),
    pytest.param(
        "Partition",
        {"origin": "Layout", "holder": {"kind": "PartitionLayout", "name": "l", "uid": "l-1"}},
        id="a layout's partition",
    ),
    pytest.param("PartitionLayout", {}, id="a layout by count"),
    pytest.param(
        "PartitionLayout",
        {
            "nodeSelector": {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]},
            "devices": [{"cel": {"expression": "device.driver == 'gpu.apportion.dev'"}}],
            "partitions": [{"profile": "1g.10gb+me", "placements": [{"start": 0}, {"start": 4}]}],
            "rollout": {"maxUnavailable": "25%"},
        },
        id="a layout by placement",
    ),
    pytest.param("AllocationPolicy", {}, id="a policy by names"),
    pytest.param("AllocationPolicy", {"deviceClasses": {"selector": {}}}, id="a policy for all classes"),
    pytest.param(
        "AllocationPolicy",
        {
            "ladder": [
                {"attribute": "resource.kubernetes.io/pcieRoot"},
                {"attribute": "npu.apportion.dev/hccsGroup"},
            ],
            "demand": {"source": "Profiles", "profiles": [{"profile": "1g.10gb"}]},
            "partitions": {"idleTimeout": "0s", "warm": [{"profile": "1g.10gb", "count": 0}]},
        },
        id="a policy with everything",
    ),
    pytest.param(
        "AllocationPolicy",
        {
            "ladderScope": "Node",
            "ladder": [
                {
                    "attribute": "a.dev/socket",
                    "drivers": ["a.dev"],
                    "perDriver": [{"driver": "b.dev", "attribute": "b.dev/cpu"}],
                    "fill": {"order": [{"take": 1, "free": [1, 3, 2, 4]}, {"take": 2, "free": [2]}]},
                    "split": "Even",
                },
                {"attribute": "a.dev/card", "fill": {}},
            ],
        },
        id="a ladder with every word",
    ),
    pytest.param("AcceleratorQuota", {}, id="a quota by class"),
    pytest.param("AcceleratorQuota", RECLAIMS | {"cohort": "x"}, id="a quota that reclaims"),
    pytest.param(
        "AcceleratorQuota",
        {
            "cohort": "x",
            "resources": [
                {"name": "memory", "capacity": "memory", "guaranteed": "40Gi", "limit": "1Ti", "weight": 3},
                {"name": "cores", "capacity": "npu.apportion.dev/aicore", "limit": "500m"},
                {"name": "slices", "profile": "1g.10gb", "limit": 0},
                {"name": "h100", "model": "NVIDIA H100 80GB HBM3", "guaranteed": "0.5"},
            ],
        },
        id="a quota with everything, in a cohort of its own name",
    ),
    *(
        pytest.param(
            "AllocationPolicy", yaml.safe_load(path.read_text())["spec"], id=f"the shipped {path.name}"
        )
        for path in sorted(SHIPPED.glob("*.yaml"))
    ),
]

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


GROUP = "/apis/apportion.dev/v1alpha1"


async def create(
    cluster: ControlPlane, kind: str, change: Json, *, name: str = "x", keep: bool = False
) -> Json:
    """Ask the server to make an object, valid but for the change; a dry run unless it is to be kept."""
    plural, spec = KINDS[kind]
    spec = without({**spec, **change}, *(field for field, value in change.items() if value is None))
    body = {"apiVersion": "apportion.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    dry = {} if keep else {"dryRun": "All"}
    return await cluster.api.create(f"{GROUP}/{plural}", body, fieldValidation="Strict", **dry)
