"""The end of a soak: nothing comes any more, so that who waits must get what is free; then everything must become free, and be had again.

In: an installation without disturbances. Out: what is left, in words; empty if all is well.

Pods that came and went while controller-manager's watch of pods was broken leave claims reserved; the operator makes it look at them after a minute.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Final

from testbed.api import Json
from testbed.checker import Checker
from testbed.installation import Installation
from testbed.soak import workload
from testbed.soak.churn import Churn
from testbed.soak.idledevices import IdleDevices
from testbed.soak.workload import Unit

_PATIENCE_SECONDS: Final = 240.0
"""Controller-manager waits for up to a minute until it watches pods again, and is made to look at claims one and three minutes after their pods have gone."""
_IDLE_SECONDS: Final = 60.0
"""Within which who can be served is served, once nothing is disturbed any more."""
_LOOK_SECONDS: Final = 0.5
_HOLDS: Final = "/apis/apportion.dev/v1alpha1/deviceholds"
# Not "is forbidden": an API server that has just started does not know the roles yet.
_DEFECT: Final = re.compile(r"Traceback|task_failed|denied request")


async def end(installation: Installation, checker: Checker, churn: Churn) -> list[str]:
    """Let those that wait have what is free, delete everything, have every device once more, and delete that; returns what did not happen."""
    gated = churn.namespaces[0]

    async def objects() -> list[str]:
        every = [("pod", checker.pods), ("claim", checker.claims), ("partition", checker.partitions)]
        found = [
            f"{kind} {_name(raw)} is left{_why(installation, raw)}"
            for kind, known in every
            for raw in known.values()
            if raw["metadata"].get("namespace", gated) in (*churn.namespaces, *churn.short_lived)
        ]
        holds, _ = await installation.cluster.api.items(_HOLDS)
        found += [f"hold {_name(raw)} is left: {raw['spec']}" for raw in holds]
        return found + [
            f"hardware of {node}: {row['card']} {row['profile']} is left"
            for node in installation.nodes
            for row in installation.hardware(node)
        ]

    async def waiting() -> list[str]:
        pods = {_name(raw): raw for raw in checker.pods.values()}
        names = (f"{gated}/{raw['metadata']['name']}" for raw in workload.last_pods())
        phases = {name: pods.get(name, {}).get("status", {}).get("phase") for name in names}
        return [
            f"pod {name} is {phase}, and devices are free"
            for name, phase in phases.items()
            if phase != "Running"
        ]

    async def idle() -> list[str]:
        now = IdleDevices(checker.devices, checker.slices.values(), checker.claims.values())
        return [*now.beside(checker.pods.values())]

    await churn.reserve_nothing()
    left = await _until_none(idle, within=_IDLE_SECONDS)
    if left:
        return left + await _said(installation, gated)
    await churn.delete_all()
    left = await _until_none(objects, within=_PATIENCE_SECONDS)
    if left:
        return left
    await churn.make(gated, Unit(pods=tuple(workload.last_pods())))
    left = await _until_none(waiting, within=_PATIENCE_SECONDS) or await _until_none(
        checker.at_rest, within=_PATIENCE_SECONDS
    )
    if left:
        return left + await _said(installation, gated)
    await churn.delete_all()
    return await _until_none(objects, within=_PATIENCE_SECONDS)


async def _said(installation: Installation, namespace: str) -> list[str]:
    """Return what Events say of the pods and claims of a namespace, what is held beside allocations, and which devices have taints."""
    read = installation.cluster.api.items
    events, _ = await read(f"/api/v1/namespaces/{namespace}/events")
    holds, _ = await read(_HOLDS)
    slices, _ = await read("/apis/resource.k8s.io/v1/resourceslices")
    said = [
        f"{each['involvedObject']['name']}: {each['reason']}: {each['message']}"
        for each in events
        if each.get("reportingComponent", "").startswith("apportion") and each["type"] == "Warning"
    ]
    tainted = [
        f"{device['name']} of {piece['spec']['pool']['name']}: {device['taints']}"
        for piece in slices
        for device in piece["spec"].get("devices") or ()
        if any(not taint["key"].endswith("/guard") for taint in device.get("taints") or ())
    ]
    return said[-20:] + [f"held: {each['spec']}" for each in holds] + tainted[:20]


def complaints(installation: Installation) -> list[str]:
    """Return the lines of the product's logs that speak of a defect in it, and the signals that ended its programs by themselves."""
    programs = (*installation.operators, *installation.agents.values())
    crashes = [
        f"{program.name} was ended {count} times by {name}"
        for program in programs
        for name, count in program.crashes.items()
    ]
    return crashes + [
        f"{program.name}: {line}"
        for program in programs
        for line in program.log.read_text(errors="replace").splitlines()
        if _DEFECT.search(line)
    ]


async def _until_none(ask: Callable[[], Awaitable[list[str]]], *, within: float) -> list[str]:
    """Ask until nothing is left or patience ends, and return what is left."""
    patience = time.monotonic() + within
    while True:
        left = await ask()
        if not left or time.monotonic() > patience:
            return left
        await asyncio.sleep(_LOOK_SECONDS)


def _why(installation: Installation, raw: Json) -> str:
    """Return what kubelet has said about a pod last, and when its node's containers had ended."""
    kubelet = installation.kubelets.get(raw["spec"].get("nodeName", ""))
    record = kubelet.records.get(raw["metadata"]["uid"]) if kubelet is not None else None
    if kubelet is None or record is None:
        return f": finalizers {raw['metadata'].get('finalizers')}, {raw.get('status')}"
    last = record.problems[-1] if record.problems else "no problem"
    return f": on {kubelet.name}, running {record.running}, stopped {record.stopped}, ended {record.ended}, {last}"


def _name(raw: Json) -> str:
    metadata = raw["metadata"]
    return "/".join(part for part in (metadata.get("namespace"), metadata["name"]) if part)
