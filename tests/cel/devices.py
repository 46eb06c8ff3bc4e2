"""Devices of a ResourceSlice."""

from collections.abc import Mapping
from typing import Any

from apportion.dra.device import Device

GPU: Mapping[str, Any] = {
    "name": "gpu-0",
    "attributes": {
        "productName": {"string": "NVIDIA H100 80GB HBM3"},
        "driverVersion": {"version": "550.54.15"},
        "index": {"int": 3},
        "healthy": {"bool": True},
        "types": {"strings": ["gpu", "mig"]},
        "other.example.com/rack": {"string": "r7"},
    },
    "capacity": {"memory": {"value": "80Gi"}, "cores": {"value": "132"}},
}


def device(raw: Mapping[str, Any] | None = None, driver: str = "gpu.example.com") -> Device:
    """Return a device of a slice."""
    return Device.from_json({"name": "d", **(GPU if raw is None else raw)}, driver=driver, pool="pool")
