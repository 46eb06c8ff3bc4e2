"""Questions about several replicas of the operator: which one leads, what they wrote."""

from collections.abc import AsyncGenerator

from testbed.eventually import eventually
from testbed.installation import Installation
from testbed.supervised import Supervised
from tests.e2e.tenant import MIG, OPERATOR, Tenant, claim, metric, pod, profile, request

LEASES = "/apis/coordination.k8s.io/v1/namespaces/apportion-system/leases/apportion-operator"


async def acting(installation: Installation) -> list[int]:
    """Return the indexes of the operators that say that they act."""
    return [
        index
        for index, operator in enumerate(installation.operators)
        if operator.pid is not None and await metric(installation, "apportion_leading", operator=index) == 1
    ]


async def leader(installation: Installation, within: float = 40.0) -> tuple[int, Supervised]:
    """Wait until exactly one operator acts."""
    [index] = await eventually(lambda: acting(installation), lambda found: len(found) == 1, within=within)
    return index, installation.operators[index]


async def holder(installation: Installation) -> str:
    """Return who holds the Lease."""
    found = await installation.cluster.api.get(LEASES)
    return str(found["spec"]["holderIdentity"])


async def holders(installation: Installation, version: str) -> AsyncGenerator[str]:
    """Yield who holds the Lease after each of its changes since that resourceVersion; empty: it was given back."""
    folder, _, name = LEASES.rpartition("/")
    changes = installation.cluster.api.watch(folder, version, fieldSelector=f"metadata.name={name}")
    async for change, found in changes:
        if change != "BOOKMARK":
            yield found["spec"].get("holderIdentity") or ""


async def serve(tenant: Tenant, *names: str, within: float = 40.0) -> None:
    """Make claims with a pod each, and wait until they run."""
    for name in names:
        await tenant.make(claim(name, request(MIG, profile("1g.10gb"))))
        await tenant.make(pod(name, name))
    await tenant.running(*names, within=within)


async def both_ready(installation: Installation) -> None:
    """Wait until the replica that does not act has started, too."""
    for index, _ in enumerate(installation.operators):
        await eventually(
            lambda index=index: metric(installation, "process_start_time_seconds", operator=index), within=40
        )


async def claims_written(installation: Installation) -> list[str]:
    """Return every write of an operator to a claim so far, as namespace/name/subresource."""
    return [
        f"{each.namespace}/{each.name}/{each.subresource}"
        for each in installation.cluster.audited()
        if each.user == OPERATOR and each.resource == "resourceclaims" and each.verb == "patch"
    ]
