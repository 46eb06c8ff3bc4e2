"""What is not ours stays as it is, byte for byte, less what the control plane itself writes."""

from typing import Any

from testbed.installation import Installation
from tests.e2e.clusterobjects import without_server_fields
from tests.e2e.tenant import (
    CLASSES,
    MIG,
    OPERATOR,
    RESOURCE,
    SLICES,
    Tenant,
    claim,
    device_class,
    device_slice,
    pod,
    profile,
    request,
    serving,
)

DRIVER = "untouched.example.com"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


async def test_objects_of_others_are_unchanged(
    installation: Installation, team: Tenant, plain: Tenant
) -> None:
    """Pods, claims, classes, slices and nodes, in and outside of managed namespaces, while ours are served."""
    api = installation.cluster.api
    made: dict[str, Any] = {}

    async def keep(path: str, body: dict[str, Any]) -> None:
        stored = await api.create(path, body)
        made[f"{path}/{stored['metadata']['name']}"] = without_server_fields(stored)

    await keep(CLASSES, device_class(DRIVER, f'device.driver == "{DRIVER}"', managed=False))
    await keep(SLICES, device_slice("untouched", DRIVER, {"name": "one"}))
    for tenant in (team, plain):
        pods = f"/api/v1/namespaces/{tenant.namespace}/pods"
        claims = f"{RESOURCE}/namespaces/{tenant.namespace}/resourceclaims"
        await keep(claims, claim("theirs", request(DRIVER)))
        # No scheduler of that name: nobody but us could change these pods.
        await keep(pods, pod("no-claims", schedulerName="nobody"))
        await keep(pods, pod("gated", gates=["queue.example.com/admission"], schedulerName="nobody"))
    for name in installation.nodes:
        path = f"/api/v1/nodes/{name}"
        made[path] = without_server_fields(await api.get(path))

    for tenant in (team, plain):
        await tenant.make(claim("ours", request(MIG, profile("1g.10gb"))))
        await tenant.make(pod("ours", "ours"))
        await tenant.running("ours")
    await installation.operators[0].stop()
    installation.operators[0].start()
    await serving(installation)
    for tenant in (team, plain):
        await tenant.delete("Pod", "ours")

    changed = {path: without_server_fields(await api.get(path)) for path in made}
    written = {
        (each.resource, each.namespace, each.name)
        for each in installation.cluster.audited()
        if each.user == OPERATOR
        and each.verb in _WRITES
        and each.namespace in (team.namespace, plain.namespace)
    }
    await api.delete(f"{SLICES}/untouched")
    await api.delete(f"{CLASSES}/{DRIVER}")

    assert changed == made
    assert {name for resource, _, name in written if resource in ("pods", "resourceclaims")} == {"ours"}
