"""Quotas, claims and devices for the tests of this folder, as their authors would write them."""

from collections.abc import Sequence
from typing import Any

from apportion.api.quota import AcceleratorQuota
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import Device, DeviceId
from apportion.dra.quantity import Quantity

GPU = "gpu.apportion.dev"
MODEL = "NVIDIA H100 80GB HBM3"


def quota(
    name: str = "q", *resources: dict[str, Any], cohort: str | None = None, reclaims: bool = False
) -> AcceleratorQuota:
    """Return a quota for namespaces with the label `team: <name>`; without resources it counts devices of class `gpu`."""
    spec: dict[str, Any] = {
        "namespaceSelector": {"matchLabels": {"team": name}},
        "resources": [*resources] or [{"name": "gpus", "deviceClass": "gpu"}],
    }
    spec |= {"cohort": cohort} if cohort else {}
    spec |= {"reclaimWithinCohort": "Any"} if reclaims else {}
    return AcceleratorQuota.from_json({"metadata": {"name": name}, "spec": spec})


def gpu(name: str = "gpu-0", *, shared: bool = False, memory: str = "80Gi") -> Device:
    """Return a whole GPU."""
    return Device.from_json(
        {
            "name": name,
            "attributes": {"type": {"string": "gpu"}, "productName": {"string": MODEL}},
            "capacity": {"memory": {"value": memory}},
            "consumesCounters": [{"counterSet": f"{name}-set", "counters": {"memory": {"value": memory}}}],
            "allowMultipleAllocations": shared,
        },
        driver=GPU,
        pool="n1",
    )


def mig(name: str = "gpu-0-mig-1g10gb-19-0", *, profile: str = "1g.10gb", memory: str = "10Gi") -> Device:
    """Return a partition, which takes a counter that no capacity of it is named after."""
    return Device.from_json(
        {
            "name": name,
            "attributes": {
                "type": {"string": "mig"},
                "profile": {"string": profile},
                "productName": {"string": MODEL},
            },
            "capacity": {"memory": {"value": memory}},
            "consumesCounters": [
                {
                    "counterSet": "gpu-0-set",
                    "counters": {"memory": {"value": memory}, "slots": {"value": "1"}},
                }
            ],
        },
        driver=GPU,
        pool="n1",
    )


def claim(*requests: tuple[str, int], name: str = "c", capacity: dict[str, str] | None = None) -> Claim:
    """Return a claim in namespace `team` with a request per (class, count)."""
    more = {"capacity": {"requests": capacity}} if capacity else {}
    return Claim.from_json(
        {
            "metadata": {"name": name, "namespace": "team", "uid": name},
            "spec": {
                "devices": {
                    "requests": [
                        {
                            "name": f"r{index}",
                            "exactly": {"deviceClassName": device_class, "count": count, **more},
                        }
                        for index, (device_class, count) in enumerate(requests or [("gpu", 1)])
                    ]
                }
            },
        }
    )


def either(*alternatives: tuple[str, int], name: str = "c") -> Claim:
    """Return a claim with one request for the first that there is of these (class, count)."""
    listed = [
        {"name": f"a{index}", "deviceClassName": device_class, "count": count}
        for index, (device_class, count) in enumerate(alternatives)
    ]
    return Claim.from_json(
        {
            "metadata": {"name": name, "namespace": "team", "uid": name},
            "spec": {"devices": {"requests": [{"name": "r0", "firstAvailable": listed}]}},
        }
    )


def allocation(
    *devices: Device, request: str = "r0", consumed: dict[str, str] | None = None, admin: bool = False
) -> Allocation:
    """Return an allocation of these devices; `consumed`: of shares of them."""
    share = {name: Quantity.parse(amount) for name, amount in (consumed or {}).items()}
    return Allocation(
        tuple(
            DeviceResult(
                request,
                device.id,
                admin_access=admin,
                share_id=f"share-{device.name}" if share else None,
                consumed=share,
            )
            for device in devices
        )
    )


def published(devices: Sequence[Device]) -> dict[DeviceId, Device]:
    """Return devices by name, for look-ups."""
    return {device.id: device for device in devices}
