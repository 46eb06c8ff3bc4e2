"""Two nodes of which one card each counts, sets of pods with partitions on them, and DefragPolicies for these cards."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from testbed.api import Json
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import DEMO_MANIFESTS, h100
from testbed.eventually import eventually
from testbed.installation import Installation
from tests.e2e.clusterobjects import objects
from tests.e2e.preemptible import FIRST, on_card
from tests.e2e.tenant import (
    CLASSES,
    GPU,
    IMAGE,
    LEASE,
    OWN,
    PATIENCE,
    RESOURCE,
    Tenant,
    device_class,
    devices,
    profile,
    request,
    serving,
)

CLASS = "movable"
NODES = ("h100-a", "h100-b")
POLICIES = f"{OWN}/defragpolicies"
SLOW = 3 * PATIENCE
"""Seconds that what is carried out may take: each step waits for the one before."""


@asynccontextmanager
async def installed(cluster: ControlPlane) -> AsyncIterator[Installation]:
    """Install on a control plane, with the two nodes."""
    nodes = [h100(name) for name in NODES]
    async with Installation(cluster, nodes, operator_options=LEASE, manifests=DEMO_MANIFESTS) as found:
        await serving(found)
        yield found


def defrag(name: str, **spec: Any) -> tuple[str, Json]:
    """Return a policy that wants the card of one node whole, in every minute, and where it is made."""
    free = {
        "wholeCards": {"deviceClass": GPU, "selectors": [{"cel": {"expression": on_card(FIRST)}}]},
    }
    made = {"free": free, "schedule": "* * * * *", "window": "1h", "cooldown": "0s", **spec}
    return POLICIES, {
        "apiVersion": "apportion.dev/v1alpha1",
        "kind": "DefragPolicy",
        "metadata": {"name": name},
        "spec": made,
    }


@asynccontextmanager
async def scattered(team: Tenant, kind: str = "Deployment", **template: Any) -> AsyncIterator[None]:
    """Let a pod with a small partition run on each node, made anew by a controller; `template`: fields of their spec."""
    installation = team.installation
    own = 'device.driver == "gpu.apportion.dev" && device.attributes["gpu.apportion.dev"].type == "mig"'
    expression = f"{own} && {on_card(FIRST)}"
    async with objects(installation, (CLASSES, device_class(CLASS, expression))):
        spec = {"spec": {"devices": {"requests": [request(CLASS, profile("1g.10gb"))]}}}
        await installation.cluster.api.create(
            f"{RESOURCE}/namespaces/{team.namespace}/resourceclaimtemplates",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaimTemplate",
                "metadata": {"name": "part"},
                "spec": spec,
            },
        )
        for name, node in zip(("one", "two"), NODES, strict=True):
            others = [each for each in NODES if each != node]
            for each in others:
                await cordon(installation, each, shut=True)
            await installation.cluster.api.create(_sets(team, kind), _set(kind, name, template))
            await eventually(lambda name=name: pods(team, name), _run, within=SLOW)
            for each in others:
                await cordon(installation, each, shut=False)
        try:
            yield
        finally:
            await installation.cluster.api.delete_all(_sets(team, kind))
            await team.empty()


async def pods(team: Tenant, app: str = "") -> list[Json]:
    """Return the pods of a set that are not ending, or of all."""
    found, _ = await team.installation.cluster.api.items(f"/api/v1/namespaces/{team.namespace}/pods")
    return [
        each
        for each in found
        if app in ("", each["metadata"].get("labels", {}).get("app"))
        and "deletionTimestamp" not in each["metadata"]
    ]


async def places(team: Tenant) -> dict[str, str]:
    """Return the device of each pod's only claim, by the pod's UID; of those that have one."""
    of = {each["metadata"]["name"]: devices(each) for each in await team.claims()}
    found: dict[str, str] = {}
    for each in await pods(team):
        names = [row.get("resourceClaimName") for row in each["status"].get("resourceClaimStatuses", ())]
        names += [row.get("resourceClaimName") for row in each["spec"].get("resourceClaims", ())]
        for name in names:
            if of.get(name or ""):
                found[each["metadata"]["uid"]] = of[name or ""][0]
    return found


async def all_run(team: Tenant, count: int) -> list[Json]:
    """Wait until so many pods run and none is ending; returns them."""

    async def every() -> list[Json]:
        found, _ = await team.installation.cluster.api.items(f"/api/v1/namespaces/{team.namespace}/pods")
        return found

    return await eventually(
        every,
        lambda found: (
            len(found) == count
            and _run(found)
            and not any("deletionTimestamp" in each["metadata"] for each in found)
        ),
        within=SLOW,
    )


async def status(team: Tenant, name: str) -> Json:
    """Return the status of a policy."""
    found: Json = (await team.installation.cluster.api.get(f"{POLICIES}/{name}")).get("status", {})
    return found


async def campaign(team: Tenant, name: str, *, ended: bool = True) -> Json:
    """Wait until a policy's plan is being carried out, or has ended; returns what is written of it."""

    async def now() -> Json:
        found: Json = (await status(team, name)).get("campaign") or {}
        return found

    return await eventually(
        now, lambda found: bool(found) and (not ended or bool(found.get("ended"))), within=SLOW
    )


async def conditions(team: Tenant, name: str) -> dict[str, tuple[str, str]]:
    """Return reason and message of each condition of a policy."""
    found = (await status(team, name)).get("conditions", ())
    return {each["type"]: (each["reason"], each["message"]) for each in found}


async def victim(team: Tenant, move: Json) -> Json:
    """Wait until the pod of a move is ending; returns it."""
    name = move["pod"].partition("/")[2]

    async def ending() -> Json:
        path = f"/api/v1/namespaces/{team.namespace}/pods/{name}"
        return await team.installation.cluster.api.find(path) or {}

    return await eventually(
        ending, lambda found: "deletionTimestamp" in found.get("metadata", {}), within=SLOW
    )


async def cordon(installation: Installation, node: str, *, shut: bool) -> None:
    """Let nobody be put on a node, or everybody again."""
    await installation.cluster.api.patch(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": shut}})


def _run(found: list[Json]) -> bool:
    return bool(found) and all(each["status"].get("phase") == "Running" for each in found)


def _sets(team: Tenant, kind: str) -> str:
    return f"/apis/apps/v1/namespaces/{team.namespace}/{kind.lower()}s"


def _set(kind: str, name: str, template: Json) -> Json:
    labels = {"app": name}
    container = {
        "name": "main",
        "image": IMAGE,
        "resources": {"claims": [{"name": "device"}], "requests": {"cpu": "100m", "memory": "64Mi"}},
    }
    claims = [{"name": "device", "resourceClaimTemplateName": "part"}]
    spec = {
        "terminationGracePeriodSeconds": 1,
        "resourceClaims": claims,
        "containers": [container],
        **template,
    }
    more = {"serviceName": name} if kind == "StatefulSet" else {}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
            **more,
        },
    }
