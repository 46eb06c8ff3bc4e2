"""`apportion release`: give everything back before apportion is uninstalled.

In: a cluster whose operator is stopped. Out: no pod has our gate, no claim has our finalizer, and no Partition exists: the
agents have removed them from the hardware. Exit status: 0 all given back, 1 a Partition is left, whose name is printed.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from apportion.api.contract import AGENT_FINALIZER, ALLOCATION_FINALIZER, GATE
from apportion.cli import document
from apportion.cli.world.live import connect_as_user
from apportion.cli.world.options import Context, Kubeconfig
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, LAYOUTS, LEASES, PARTITIONS, PODS, ResourceKind
from apportion.cluster.listing import list_all
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.errors import ApiError, BrokenInput, Missing, Overtaken, Unreachable
from apportion.settings import LeaseSettings

Object = dict[str, Any]
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries."""
_LOOK = 0.25
"""Seconds between two looks at the lease."""
_RENEWALS = 3
"""Renewals of the lease after which its holder acts; one that is about to stop may renew it, too."""


def release(
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    namespace: Annotated[str, typer.Option(help="Namespace of the operator.")] = "apportion-system",
    patience: Annotated[float, typer.Option(help="Seconds to wait for the agents.", min=0)] = 120.0,
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
    for name in left:
        console.print(f"left: partition {name}", markup=False, highlight=False)
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
        gates = await _each(client, _gated, _open)
        finalizers = await _each(client, _kept, _drop)
        console.print(f"{gates} gates opened, {finalizers} finalizers dropped")
        for layout in await _list(client, LAYOUTS):
            await client.delete(LAYOUTS, layout["metadata"]["name"])
        left = await _remove_partitions(client, patience, console)
        if force:
            for partition in left:
                await _let_go(client, partition)
            return []
        return [partition["metadata"]["name"] for partition in left]


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


async def _remove_partitions(client: Client, patience: float, console: Console) -> list[Object]:
    """Delete all Partitions and wait for the agents; returns those that are left."""
    found = await _list(client, PARTITIONS)
    for partition in found:
        await client.delete(PARTITIONS, partition["metadata"]["name"])
    end = time.monotonic() + patience
    left: list[Object] = found
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("partitions removed by their agents", total=len(found))
        while left and time.monotonic() < end:
            left = await _list(client, PARTITIONS)
            progress.update(task, completed=len(found) - len(left))
            await asyncio.sleep(0.2 if left else 0)
    return left


async def _let_go(client: Client, partition: Object) -> None:
    metadata = partition["metadata"]
    rest = [name for name in metadata.get("finalizers") or () if name != AGENT_FINALIZER]
    try:
        await client.patch(PARTITIONS, metadata["name"], {"metadata": {"finalizers": rest}})
    except Missing:
        return
