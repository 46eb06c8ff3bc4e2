"""Objects that users may write."""

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
DEFRAG: Json = {
    "free": {"wholeCards": {"deviceClass": "gpu.apportion.dev"}},
    "schedule": "0 3 * * *",
}
RECLAIMS: Json = {"reclaimWithinCohort": "Any"}
HOLD: Json = {
    "purpose": "Move",
    "heldFor": [{"kind": "DefragPolicy", "name": "tidy", "uid": "t-1"}],
    "controllers": ["c-1"],
    "count": 1,
    "devices": [{"driver": "gpu.apportion.dev", "pool": "n1", "device": "gpu-0"}],
}
KINDS = {
    "Partition": ("partitions", PARTITION),
    "PartitionLayout": ("partitionlayouts", LAYOUT),
    "AllocationPolicy": ("allocationpolicies", POLICY),
    "AcceleratorQuota": ("acceleratorquotas", QUOTA),
    "DefragPolicy": ("defragpolicies", DEFRAG),
    "DeviceHold": ("deviceholds", HOLD),
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


def held_share(memory: str) -> Json:
    """Return the share of a device that a DeviceHold holds."""
    device = {"driver": "gpu.apportion.dev", "pool": "n1", "device": "gpu-0"}
    return {**device, "shareID": "s-1", "consumedCapacity": {"memory": memory}}


ACCEPTED = [
    pytest.param(
        "DeviceHold",
        {"devices": [held_share(each) for each in ("40Gi", "1500m", "0", "12e30", "1.5G")]},
        id="shares of amounts in all ways to write one",
    ),
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
    pytest.param("DefragPolicy", {}, id="a policy that recommends"),
    pytest.param(
        "DefragPolicy",
        {
            "free": {"roomFor": {"deviceClass": "mig.apportion.dev", "count": 2}},
            "nodeSelector": {"matchLabels": {"pool": "shared"}},
            "mode": "Evict",
            "timeZone": "America/Argentina/Buenos_Aires",
            "window": "2h",
            "cooldown": "0s",
            "threshold": 2,
            "maxRestarts": 64,
            "moveTimeout": "10m",
        },
        id="a policy that evicts, with everything",
    ),
    pytest.param("DeviceHold", {}, id="places of moves"),
    pytest.param(
        "DeviceHold",
        {
            "purpose": "Reservation",
            "heldFor": [{"kind": "ResourceClaim", "namespace": "team", "name": "large", "uid": "c-1"}],
            "priority": -5,
            "starts": "2026-01-01T00:00:00Z",
            "devices": [
                {
                    "driver": "gpu.apportion.dev",
                    "pool": "n1",
                    "device": "gpu-0",
                    "shareID": "5f1c0000-0000-4000-8000-000000000000",
                    "consumedCapacity": {"memory": "10Gi"},
                }
            ],
        },
        id="a reserved share of a GPU",
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
