"""Pods in series with one claim, and another claim that wants the same partition."""

from typing import Any

from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.tenant import MIG, RESOURCE, Tenant, claim, pod, profile, request

KEEP_FOR = "apportion.dev/keep-for"
NODE = "h100-b"
ONE_CARD = (
    'device.attributes["resource.kubernetes.io"].pciBusID == "0000:1b:00.0"',
    'device.attributes["gpu.apportion.dev"].profile == "7g.80gb"',
)
"""The only placement of the largest profile on gpu-3."""


def user(name: str, claim_name: str, node: str) -> dict[str, Any]:
    """Return a pod of one node with a claim."""
    return pod(name, claim_name, nodeSelector={"kubernetes.io/hostname": node})


async def unreserved(tenant: Tenant, name: str) -> None:
    """Wait until no pod has reserved a claim."""
    await eventually(
        lambda: tenant.claim(name), lambda found: not found["status"].get("reservedFor"), within=30
    )


async def keeps_its_partition(installation: Installation, team: Tenant, node: str, *selectors: str) -> None:
    """Lead a claim through two pods and its end, with another claim that wants the same partition.

    It keeps its partition for longer than the next pod takes to come on a slow machine, and for a second once no other comes.
    """
    only = request(MIG, *(selectors or (profile("7g.80gb"),)))

    def cut() -> list[str]:
        return [row["uuid"] for row in installation.hardware(node) if row["profile"] == "7g.80gb"]

    await team.make(claim("series", only, annotations={KEEP_FOR: "10m"}))
    await team.make(user("first", "series", node))
    await team.running("first", within=60)
    [device] = await team.allocated("series")
    before = cut()
    await team.delete("Pod", "first")
    await unreserved(team, "series")
    await team.make(claim("other", only))
    await team.make(user("other", "other", node))
    await team.event("other", "NotAllocated")

    await team.make(user("second", "series", node))
    await team.running("second")
    assert await team.allocated("series") == [device]
    assert cut() == before
    assert not (await team.claim("other"))["status"].get("allocation")

    await team.delete("Pod", "second")
    series = f"{RESOURCE}/namespaces/{team.namespace}/resourceclaims/series"
    await installation.cluster.api.patch(series, {"metadata": {"annotations": {KEEP_FOR: "1s"}}})
    await team.running("other", within=60)
    assert await team.allocated("other") == [device]
    assert not (await team.claim("series"))["status"].get("allocation")
    assert cut() == before
    await installation.cluster.api.delete(series)
