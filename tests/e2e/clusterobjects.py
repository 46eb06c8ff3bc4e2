"""Objects that single tests create in the cluster, and what they read back from it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import (
    MIG,
    PATIENCE,
    RESOURCE,
    SLICES,
    Tenant,
    claim,
    pod,
    profile,
    request,
)


@asynccontextmanager
async def objects(installation: Installation, *made: tuple[str, dict[str, Any]]) -> AsyncIterator[None]:
    """Make cluster-wide objects, and delete them again."""
    api = installation.cluster.api
    for path, body in made:
        await api.create(path, body)
    try:
        yield
    finally:
        for path, body in made:
            await api.delete(f"{path}/{body['metadata']['name']}")


async def served_beside(tenant: Tenant) -> None:
    """Check that an ordinary claim, newer than the bad one, gets its device and its pod runs."""
    await tenant.make(claim("ordinary", request(MIG, profile("1g.10gb"))))
    await tenant.make(pod("ordinary", "ordinary"))
    await tenant.running("ordinary")


async def condition(installation: Installation, path: str, kind: str) -> dict[str, Any]:
    """Wait until an object of ours has a condition with a status, and return it."""

    async def now() -> dict[str, Any]:
        found = await installation.cluster.api.get(path)
        rows = found.get("status", {}).get("conditions", ())
        return next((row for row in rows if row["type"] == kind and row["status"] == "False"), {})

    return await eventually(now, within=PATIENCE)


async def known(installation: Installation, path: str) -> None:
    """Wait until the operator has said something of an object of ours: a pod that it sees before is served without it."""
    await eventually(
        lambda: installation.cluster.api.get(path),
        lambda found: found.get("status", {}).get("conditions"),
        within=PATIENCE,
    )


async def device_attributes(installation: Installation, names: list[str]) -> list[dict[str, Any]]:
    """Return the attributes of devices, given as pool/device."""
    slices, _ = await installation.cluster.api.items(SLICES)
    found = {
        f"{piece['spec']['pool']['name']}/{device['name']}": {
            name: next(iter(value.values())) for name, value in device["attributes"].items()
        }
        for piece in slices
        for device in piece["spec"].get("devices", ())
    }
    return [found[name] for name in names]


async def bound(tenant: Tenant, name: str) -> dict[str, Any]:
    """Wait until a pod has a node."""
    return await eventually(lambda: tenant.pod(name), lambda found: found["spec"].get("nodeName"), within=30)


async def allocate_by_hand(tenant: Tenant, name: str, allocation: dict[str, Any], **status: Any) -> None:
    """Write an allocation as an administrator with too many rights could."""
    await tenant.installation.cluster.api.patch(
        f"{RESOURCE}/namespaces/{tenant.namespace}/resourceclaims/{name}",
        {
            "metadata": {"finalizers": ["resource.kubernetes.io/delete-protection"]},
        },
    )
    await tenant.installation.cluster.api.patch(
        f"{RESOURCE}/namespaces/{tenant.namespace}/resourceclaims/{name}/status",
        {"status": {"allocation": {**allocation, "allocationTimestamp": "2099-01-01T00:00:00Z"}, **status}},
        fieldManager="somebody",
    )


def without_server_fields(found: dict[str, Any]) -> str:
    """Return an object without what every write or the control plane changes."""
    metadata = {
        key: value
        for key, value in found["metadata"].items()
        if key not in ("managedFields", "resourceVersion", "generation")
    }
    return json.dumps({**found, "metadata": metadata, "status": None}, sort_keys=True)
