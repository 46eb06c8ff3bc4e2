"""The objects of a live cluster, read only.

In: a kubeconfig, a context. Out: the objects of all kinds that decide something, and the server's version. Kinds that the server does not serve
are left out; so are volumes and DeviceHolds that the user may not read, as the operator does without them, and, said on standard error, workloads of
kinds that the server may not even serve.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import typer

from apportion.cli.terminal import visible
from apportion.cli.world.objects import DECIDING, VOLUME_KINDS, Contents
from apportion.cluster import kinds
from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import ResourceKind
from apportion.cluster.listing import list_all
from apportion.cluster.serverversion import require_version
from apportion.dra.reading import Json
from apportion.errors import ApiError, BrokenInput, Missing

_NOT_NEEDED = frozenset((kinds.HOLDS, *VOLUME_KINDS))
"""Without them answers are as if no volume tied a pod to a node, and nothing was held beside allocations."""
_ADDED = frozenset(("jobset.x-k8s.io", "leaderworkerset.x-k8s.io"))
"""API groups that few clusters have: to a user without the right to read them the server does not say whether they are there."""
_FORBIDDEN = 403
_USERS_OWN = Path(".kube/config")


def read_live(
    kubeconfig: Path | None,
    further: Sequence[ResourceKind] = (),
    namespace: str = "",
    context: str | None = None,
) -> tuple[Contents, list[Json]]:
    """Return all objects that decide something, with the server's version, and those of `further` kinds in a namespace (empty: in all).

    Raises ApportionError.
    """
    return asyncio.run(_read(kubeconfig, context, further, namespace))


async def connect_as_user(kubeconfig: Path | None, context: str | None, manager: str) -> Client:
    """Connect as kubectl would: by the kubeconfig, else that of the user, else the pod's service account.

    `manager` is the field manager of every write. Raises ApportionError, also for a kubeconfig that cannot be read.
    """
    if kubeconfig is None and (Path.home() / _USERS_OWN).exists():
        kubeconfig = Path.home() / _USERS_OWN
    if kubeconfig is None and context is not None:
        raise BrokenInput("there is no kubeconfig that could have a context", field="--context")
    return await connect(kubeconfig, context=context, manager=manager)


async def _read(
    kubeconfig: Path | None, context: str | None, further: Sequence[ResourceKind], namespace: str
) -> tuple[Contents, list[Json]]:
    async with await connect_as_user(kubeconfig, context, "apportion-cli") as client:
        major, minor = await require_version(client)
        found = {kind: await _list(client, kind) for kind in DECIDING}
        more = [each for kind in further for each in await _list(client, kind, namespace) or ()]
        objects = [each for listed in found.values() for each in listed or ()]
        volumes = all(found[kind] is not None for kind in VOLUME_KINDS)
        return Contents(objects, f"{major}.{minor}", volumes), more


async def _list(client: Client, kind: ResourceKind, namespace: str = "") -> list[Json] | None:
    """Return the objects of a kind, None where they may not be read; items of a list say neither kind nor version."""
    try:
        listed = await list_all(client, kind, namespace=namespace)
    except Missing:
        return []
    except ApiError as error:
        if error.status != _FORBIDDEN or not (kind in _NOT_NEEDED or kind.group in _ADDED):
            raise
        if kind.group in _ADDED:
            typer.echo(f"left out: {kind.plural}.{kind.group}: {visible(str(error))}", err=True)
        return None
    return [{"apiVersion": kind.api_version, "kind": kind.name, **each} for each in listed]
