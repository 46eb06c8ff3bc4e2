"""Gating: what makes pods wait for the operator, and keeps claims from going without it.

In: a cluster whose operator is stopped. Out: no pod gets our gate, none has it, no claim has our finalizer.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import ADMISSION_BINDINGS, CLAIMS, PODS, ResourceKind
from apportion.cluster.listing import list_all
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.errors import ApiError, Missing, Overtaken, Unreachable

Object = dict[str, Any]
_BINDINGS = ("extended-resources.apportion.dev", "gate.apportion.dev")
"""MutatingAdmissionPolicyBindings by which pods come to wait for the operator."""
_SETTLED = 2.0
"""Seconds after which no API server goes on by a binding that was deleted: each reads them once a second."""
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries."""


async def end_gating(client: Client) -> None:
    """Let pods come without a gate from now on: nobody would be left to open it."""
    ended = False
    for name in _BINDINGS:
        try:
            await client.get(ADMISSION_BINDINGS, name)
        except Missing:
            continue
        await client.delete(ADMISSION_BINDINGS, name)
        ended = True
    if ended:
        await asyncio.sleep(_SETTLED)


async def open_gates(client: Client) -> int:
    """Take our gate off all pods; returns how many had it. Raises ApiError."""
    return await _each(client, _gated, _open)


async def drop_finalizers(client: Client) -> int:
    """Take our finalizer off all claims but those that `keeps_ours`; returns how many had it. Raises ApiError."""
    return await _each(client, _kept, _drop)


def keeps_ours(claim: Object) -> bool:
    """Say whether a claim needs our finalizer until its pods have ended: it is being deleted, and the API server lets nobody add another one."""
    metadata, status = claim["metadata"], claim.get("status") or {}
    finalizers = metadata.get("finalizers") or ()
    return (
        metadata.get("deletionTimestamp") is not None
        and bool(status.get("allocation") and status.get("reservedFor"))
        and ALLOCATION_FINALIZER in finalizers
        and PROTECTION_FINALIZER not in finalizers
    )


async def list_patiently(client: Client, kind: ResourceKind) -> list[Object]:
    """Return all objects of a kind; tries again for some seconds while the server does not answer. Raises ApiError."""
    for pause in _PAUSES:
        try:
            return await list_all(client, kind)
        except Unreachable:
            await asyncio.sleep(pause)
    return await list_all(client, kind)


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
    pods = await list_patiently(client, PODS)
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
    claims = await list_patiently(client, CLAIMS)
    return [
        claim
        for claim in claims
        if ALLOCATION_FINALIZER in (claim["metadata"].get("finalizers") or ()) and not keeps_ours(claim)
    ]


async def _drop(client: Client, claim: Object) -> None:
    metadata = claim["metadata"]
    rest = [name for name in metadata["finalizers"] if name != ALLOCATION_FINALIZER]
    allocated = (claim.get("status") or {}).get("allocation")
    if allocated and PROTECTION_FINALIZER not in rest and metadata.get("deletionTimestamp") is None:
        # A pod may use it: from here controller-manager takes care of it, as of every other claim that is allocated.
        rest.append(PROTECTION_FINALIZER)
    body = {"metadata": {"resourceVersion": metadata["resourceVersion"], "finalizers": rest}}
    await client.patch(CLAIMS, metadata["name"], body, namespace=metadata["namespace"])
