"""Objects of the API as JSON."""

from typing import Any

from tests.install.writtenobjects import PARTITION as WRITTEN

PARTITION: dict[str, Any] = {
    "apiVersion": "apportion.dev/v1alpha1",
    "kind": "Partition",
    "metadata": {"name": "n1-gpu-0-mig-1g10gb-19-3", "uid": "u1", "finalizers": ["apportion.dev/agent"]},
    "spec": WRITTEN,
    "status": {"phase": "Ready", "instance": {"gpuInstance": "9"}, "preparedBy": ["c-1"]},
}


def layout(**spec: Any) -> dict[str, Any]:
    """Return a PartitionLayout, valid except for the given fields."""
    return {
        "metadata": {"name": "sevenths"},
        "spec": {"partitions": [{"profile": "1g.10gb", "count": 7}], **spec},
    }


def policy(**spec: Any) -> dict[str, Any]:
    """Return an AllocationPolicy, valid except for the given fields."""
    return {"metadata": {"name": "p"}, "spec": {"deviceClasses": {"names": ["mig.apportion.dev"]}, **spec}}
