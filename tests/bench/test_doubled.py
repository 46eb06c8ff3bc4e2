"""Devices that several claims have."""

from typing import Any

from bench.doubled import doubled


def claim(*devices: str, node: str = "n1") -> dict[str, Any]:
    results = [
        {"request": "gpu", "driver": "gpu.apportion.dev", "pool": node, "device": name} for name in devices
    ]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def test_a_device_of_two_claims_is_found() -> None:
    """A device is known by driver, pool and name; claims without an allocation have none."""
    claims = [claim("gpu-0", "gpu-1"), claim("gpu-0", node="n2"), {}, {"status": {}}]
    assert doubled(claims) == []
    assert doubled([*claims, claim("gpu-2", "gpu-1")]) == [("gpu.apportion.dev", "n1", "gpu-1")]
