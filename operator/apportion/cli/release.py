"""`apportion release`: give everything back before apportion is uninstalled.

In: a cluster whose operator is stopped. Out: no pod has our gate or gets one, no claim has our finalizer, no pod uses devices of our
agents, and no Partition exists: the agents have removed them from the hardware. Exit status: 0 all given back, 1 a Partition, a
claim in use (printed with the pods that use it), or a gate or finalizer that others let nobody take off is left, 2 the cluster cannot be read or written, or an operator acts.
"""

import asyncio
import time
from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress

from apportion.api.contract import AGENT_FINALIZER, GUARD
from apportion.cli import document
from apportion.cli.gating import drop_finalizers, end_gating, keeps_ours, list_patiently, open_gates
from apportion.cli.operatorlease import require_stopped
from apportion.cli.terminal import visible
from apportion.cli.world.live import connect_as_user
from apportion.cli.world.options import Context, Kubeconfig
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, LAYOUTS, PARTITIONS, SLICES
from apportion.errors import ApiError, BrokenInput, Missing, Unreachable
from apportion.settings import DRIVERS

Object = dict[str, Any]


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
    except (BrokenInput, ApiError) as error:
        raise document.refuse(str(error)) from None
    for each in left:
        _say(console, f"left: {each}")
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
        await require_stopped(client, namespace, partial(_say, console))
        await end_gating(client)
        (gates, gated), (finalizers, kept) = await open_gates(client), await drop_finalizers(client)
        console.print(f"{gates} gates opened, {finalizers} finalizers dropped")
        unwritten = [*gated.values(), *kept.values()]
        if unwritten and not gates + finalizers and all(isinstance(each, Unreachable) for each in unwritten):
            raise unwritten[0]
        for layout in await list_patiently(client, LAYOUTS):
            await client.delete(LAYOUTS, layout["metadata"]["name"])
        drivers = await _drivers(client)
        partitions, claims = await _remove_partitions(client, drivers, patience, console)
        # Claims that are being deleted had to keep it for as long as pods used them.
        _, kept = await drop_finalizers(client)
        if force:
            for partition in partitions:
                await _let_go(client, partition)
            partitions = []
        return [
            *(f"pod {name}, whose gate stays: {error}" for name, error in gated.items()),
            *(f"claim {name}, whose finalizer stays: {error}" for name, error in kept.items()),
            *(f"partition {each['metadata']['name']}{_used(each, claims)}" for each in partitions),
            *(f"claim {_key(each)}, used by {_users(each)}" for each in claims),
        ]


def _say(console: Console, text: str) -> None:
    console.print(visible(text), markup=False, highlight=False, soft_wrap=True)


async def _drivers(client: Client) -> frozenset[str]:
    """Return the drivers of our agents: all of their devices have the guard taint. Those of the usual names are ours without slices, too.

    Kubelet deletes the slices of an agent that has gone.
    """
    guarded = frozenset(
        piece["spec"]["driver"]
        for piece in await list_patiently(client, SLICES)
        if any(
            taint["key"] == GUARD
            for device in piece["spec"].get("devices") or ()
            for taint in device.get("taints") or ()
        )
    )
    return guarded | DRIVERS


async def _remove_partitions(
    client: Client, drivers: Collection[str], patience: float, console: Console
) -> tuple[list[Object], list[Object]]:
    """Delete all Partitions, wait for the agents and for pods; returns the partitions, and the claims in use, that are left."""
    found = await list_patiently(client, PARTITIONS)
    for partition in found:
        await client.delete(PARTITIONS, partition["metadata"]["name"])
    end = time.monotonic() + patience
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("partitions removed by their agents", total=len(found))
        while True:
            left = await list_patiently(client, PARTITIONS)
            claims = [
                each
                for each in await list_patiently(client, CLAIMS)
                if _is_used(each, drivers) or keeps_ours(each)
            ]
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
