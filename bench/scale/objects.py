"""Objects that the large cluster and new claims have in common: requests, pods, and a slice of whole GPUs."""

from typing import Final

from testbed.api import Json

DRIVER: Final = "gpu.apportion.dev"


def request(count: int = 1) -> Json:
    """Return a request for whole GPUs."""
    exactly = {"deviceClassName": DRIVER, "allocationMode": "ExactCount", "count": count}
    return {"name": "device", "exactly": exactly}


def pod(name: str, *claims: str) -> Json:
    """Return a pod that names these claims."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 0,
            "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
            "containers": [
                {
                    "name": "main",
                    "image": "none",
                    "resources": {
                        "claims": [{"name": claim} for claim in claims],
                        "requests": {"cpu": "1", "memory": "4Gi"},
                    },
                }
            ],
        },
    }


def whole_gpus(node: str, slices: tuple[Json, ...]) -> Json:
    """Return one slice with the whole GPUs only, as of cards that cannot be cut."""
    rows = [
        {key: value for key, value in device.items() if key != "consumesCounters"}
        for item in slices
        for device in item["spec"].get("devices", ())
        if device["attributes"]["type"] == {"string": "gpu"}
    ]
    first = slices[0]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    metadata = first["metadata"] | {"name": f"{node}-{DRIVER}-devices-00"}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": rows}
    return first | {"metadata": metadata, "spec": spec}
