"""Gating: what makes pods wait for the operator, and keeps claims from going without it.

In: a cluster whose operator is stopped. Out: no pod gets our gate, none has it, no claim has our finalizer.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import ADMISSION_BINDINGS, CLAIMS, PODS, ResourceKind
from apportion.cluster.listing import list_all
from apportion.dra.claim import PROTECTION_FINALIZER
from apportion.errors import ApiError, Missing, Overtaken, Unreachable

Object = dict[str, Any]
Refused = Mapping[str, ApiError]
"""Why an object could not be written, by `namespace/name`."""
_BINDINGS = ("extended-resources.apportion.dev", "gate.apportion.dev")
"""MutatingAdmissionPolicyBindings by which pods come to wait for the operator."""
_SETTLED = 2.0
"""Seconds after which no API server goes on by a binding that was deleted: each reads them once a second."""
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)
"""Seconds between tries."""
_WEBHOOK_DOWN = 500
"""HTTP status of a write that a webhook of others had to be asked about, which does not answer: other objects may not be its business."""


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


async def open_gates(client: Client) -> tuple[int, Refused]:
    """Take our gate off all pods; returns how many had it, and those of which a webhook or policy of others lets nobody take it. Raises ApiError."""
    return await _each(client, _gated, _open)


async def drop_finalizers(client: Client) -> tuple[int, Refused]:
    """Take our finalizer off all claims but those that `keeps_ours`; returns the like of `open_gates`. Raises ApiError."""
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
) -> tuple[int, Refused]:
    """Act on all that is found, once more on what others wrote meanwhile and where a request was not answered; returns how many there were, and what was refused."""
    done, refused = 0, dict[str, ApiError]()
    for pause in _PAUSES:
        failed: ApiError | None = None
        # What is refused for good is not asked for again; a webhook of others that was down may be there again.
        final = {name for name, error in refused.items() if not isinstance(error, Unreachable)}
        found = {
            f"{each['metadata']['namespace']}/{each['metadata']['name']}": each for each in await find(client)
        }
        refused = {name: refused[name] for name in final & found.keys()}
        for name, item in found.items():
            if name in final:
                continue
            try:
                await act(client, item)
                done += 1
            except Missing:
                continue
            except Overtaken as error:
                failed = error
            except ApiError as error:
                if isinstance(error, Unreachable) and error.status != _WEBHOOK_DOWN:
                    failed = error
                    break
                refused[name] = error
        if failed is None and not any(isinstance(error, Unreachable) for error in refused.values()):
            break
        if pause == _PAUSES[-1]:
            if failed is not None:
                raise failed
            break
        await asyncio.sleep(pause)
    return done, refused


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
