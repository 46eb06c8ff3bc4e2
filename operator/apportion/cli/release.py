"""`apportion release`: give everything back before apportion is uninstalled.

In: a cluster whose operator is stopped. Out: no pod has our gate or gets one, no claim has our finalizer, no pod uses devices of our
agents, and no Partition exists: the agents have removed them from the hardware. Exit status: 0 all given back, 1 a Partition or a
claim in use is left, which is printed with the pods that use it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from apportion.api.contract import AGENT_FINALIZER, ALLOCATION_FINALIZER, GATE, GUARD
from apportion.cli import document
from apportion.cli.world.live import connect_as_user
from apportion.cli.world.options import Context, Kubeconfig
from apportion.cluster.client import Client
from apportion.cluster.kinds import (
    ADMISSION_BINDINGS,
    CLAIMS,
    LAYOUTS,
    LEASES,
    PARTITIONS,
    PODS,
    SLICES,
    ResourceKind,
)
from apportion.cluster.listing import list_all
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.errors import ApiError, BrokenInput, Missing, Overtaken, Unreachable
from apportion.settings import LeaseSettings

Object = dict[str, Any]
_GATING = ("extended-resources.apportion.dev", "gate.apportion.dev")
"""MutatingAdmissionPolicyBindings by which pods come to wait for the operator."""
_SETTLED = 2.0
"""Seconds after which no API server goes on by a binding that was deleted: each reads them once a second."""
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries."""
_LOOK = 0.25
"""Seconds between two looks at the lease."""
_RENEWALS = 3
"""Renewals of the lease after which its holder acts; one that is about to stop may renew it, too."""


def release(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[
        str, typer.Option("-n", "--namespace", help="Namespace of the operator.")
    ] = "apportion-system",
    patience: Annotated[float, typer.Option(help="Seconds to wait for agents and pods.", min=0)] = 120.0,
    force: Annotated[  # noqa: FBT002 - typer makes a flag of it
        bool,
        typer.Option("--force", help="Drop what agents do not release in time; their hardware stays cut."),
    ] = False,
) -> None:
    """Open all gates, drop our finalizers, remove all partitions; stop the operator first."""
    console = Console(stderr=True)
    try:
        left = asyncio.run(_release(kubeconfig, context, namespace, patience, force=force, console=console))
    except BrokenInput as error:
        raise document.refuse(str(error)) from None
    except ApiError as error:
        console.print(f"error: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
    for each in left:
        console.print(f"left: {each}", markup=False, highlight=False, soft_wrap=True)
    if left:
        raise typer.Exit(1)


async def _release(
    kubeconfig: Path | None,
    context: str | None,
    namespace: str,
    patience: float,
    *,
    force: bool,
    console: Console,
) -> list[str]:
    async with await connect_as_user(kubeconfig, context, "apportion-release") as client:
        await _require_stopped(client, namespace, console)
        await _end_gating(client)
        gates = await _each(client, _gated, _open)
        finalizers = await _each(client, _kept, _drop)
        console.print(f"{gates} gates opened, {finalizers} finalizers dropped")
        for layout in await _list(client, LAYOUTS):
            await client.delete(LAYOUTS, layout["metadata"]["name"])
        drivers = await _drivers(client)
        partitions, claims = await _remove_partitions(client, drivers, patience, console)
        if force:
            for partition in partitions:
                await _let_go(client, partition)
            partitions = []
        return [
            *(f"partition {each['metadata']['name']}{_used(each, claims)}" for each in partitions),
            *(f"claim {_key(each)}, used by {_users(each)}" for each in claims),
        ]


async def _list(client: Client, kind: ResourceKind) -> list[Object]:
    """List a kind; retries for some seconds while the server does not answer."""
    for pause in _PAUSES:
        try:
            return await list_all(client, kind)
        except Unreachable:
            await asyncio.sleep(pause)
    return await list_all(client, kind)


async def _require_stopped(client: Client, namespace: str, console: Console) -> None:
    """Wait until no operator holds the lease, or it is over by our own clock: one that was killed has not released it.

    Raises ApiError while one renews it: it would create again what is removed here.
    """
    version, since, renewals = "", 0.0, -1
    while True:
        try:
            lease = await client.get(LEASES, "apportion-operator", namespace=namespace)
        except Missing:
            return
        spec, now = lease.get("spec") or {}, time.monotonic()
        holder = spec.get("holderIdentity")
        if not holder:
            return
        if lease["metadata"]["resourceVersion"] != version:
            version, since, renewals = lease["metadata"]["resourceVersion"], now, renewals + 1
        held = f"lease {namespace}/apportion-operator is held by {holder}"
        if renewals == _RENEWALS:
            raise ApiError(
                f"{held}: stop the operator first"
                f" (kubectl -n {namespace} scale deployment apportion-operator --replicas=0)"
            )
        term = float(spec.get("leaseDurationSeconds") or LeaseSettings().duration)
        if now - since > term:
            return
        if not renewals and since == now:
            console.print(
                f"{held}: waiting for its end, {term:.0f} s at most if the operator has stopped",
                markup=False,
                highlight=False,
            )
        await asyncio.sleep(_LOOK)


async def _end_gating(client: Client) -> None:
    """Let pods come without a gate from now on: nobody would be left to open it."""
    ended = False
    for name in _GATING:
        try:
            await client.get(ADMISSION_BINDINGS, name)
        except Missing:
            continue
        await client.delete(ADMISSION_BINDINGS, name)
        ended = True
    if ended:
        await asyncio.sleep(_SETTLED)


async def _each(
    client: Client,
    find: Callable[[Client], Awaitable[list[Object]]],
    act: Callable[[Client, Object], Awaitable[None]],
) -> int:
    """Act on all that is found, once more on what others wrote meanwhile and after a request that was not answered; returns how many there were."""
    done = 0
    for pause in _PAUSES:
        failed: ApiError | None = None
        for item in await find(client):
            try:
                await act(client, item)
                done += 1
            except Missing:
                continue
            except Overtaken as error:
                failed = error
            except Unreachable as error:
                failed = error
                break
        if failed is None:
            break
        if pause == _PAUSES[-1]:
            raise failed
        await asyncio.sleep(pause)
    return done


async def _gated(client: Client) -> list[Object]:
    pods = await _list(client, PODS)
    return [
        pod for pod in pods if any(gate["name"] == GATE for gate in pod["spec"].get("schedulingGates") or ())
    ]


async def _open(client: Client, pod: Object) -> None:
    metadata = pod["metadata"]
    rest = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != GATE]
    body = {
        "metadata": {"resourceVersion": metadata["resourceVersion"]},
        "spec": {"schedulingGates": rest},
    }
    await client.patch(PODS, metadata["name"], body, namespace=metadata["namespace"])


async def _kept(client: Client) -> list[Object]:
    claims = await _list(client, CLAIMS)
    return [claim for claim in claims if ALLOCATION_FINALIZER in (claim["metadata"].get("finalizers") or ())]


async def _drop(client: Client, claim: Object) -> None:
    metadata = claim["metadata"]
    rest = [name for name in metadata["finalizers"] if name != ALLOCATION_FINALIZER]
    if (claim.get("status") or {}).get("allocation") and PROTECTION_FINALIZER not in rest:
        # A pod may use it: from here controller-manager takes care of it, as of every other claim that is allocated.
        rest.append(PROTECTION_FINALIZER)
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": rest}}
    await client.patch(CLAIMS, metadata["name"], body, namespace=metadata["namespace"])


async def _drivers(client: Client) -> frozenset[str]:
    """Return the drivers of our agents: all of their devices have the guard taint."""
    return frozenset(
        piece["spec"]["driver"]
        for piece in await _list(client, SLICES)
        if any(
            taint["key"] == GUARD
            for device in piece["spec"].get("devices") or ()
            for taint in device.get("taints") or ()
        )
    )


async def _remove_partitions(
    client: Client, drivers: Collection[str], patience: float, console: Console
) -> tuple[list[Object], list[Object]]:
    """Delete all Partitions, wait for the agents and for pods; returns the partitions, and the claims in use, that are left."""
    found = await _list(client, PARTITIONS)
    for partition in found:
        await client.delete(PARTITIONS, partition["metadata"]["name"])
    end = time.monotonic() + patience
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("partitions removed by their agents", total=len(found))
        while True:
            left = await _list(client, PARTITIONS)
            claims = [each for each in await _list(client, CLAIMS) if _is_used(each, drivers)]
            progress.update(task, completed=len(found) - len(left))
            if not (left or claims) or time.monotonic() >= end:
                return left, claims
            await asyncio.sleep(0.2)


def _is_used(claim: Object, drivers: Collection[str]) -> bool:
    """Say whether pods have devices of these drivers by a claim: without its agent kubelet cannot end them."""
    status = claim.get("status") or {}
    devices = (status.get("allocation") or {}).get("devices") or {}
    return bool(status.get("reservedFor")) and any(
        each["driver"] in drivers for each in devices.get("results") or ()
    )


def _used(partition: Object, claims: Iterable[Object]) -> str:
    users = set((partition.get("status") or {}).get("preparedBy") or ())
    found = [each for each in claims if each["metadata"]["uid"] in users]
    return "".join(f", prepared for claim {_key(each)}" for each in found)


def _users(claim: Object) -> str:
    return ", ".join(f"{each['resource']}/{each['name']}" for each in claim["status"]["reservedFor"])


def _key(raw: Object) -> str:
    return f"{raw['metadata']['namespace']}/{raw['metadata']['name']}"


async def _let_go(client: Client, partition: Object) -> None:
    metadata = partition["metadata"]
    rest = [name for name in metadata.get("finalizers") or () if name != AGENT_FINALIZER]
    try:
        await client.patch(PARTITIONS, metadata["name"], {"metadata": {"finalizers": rest}})
    except Missing:
        return
