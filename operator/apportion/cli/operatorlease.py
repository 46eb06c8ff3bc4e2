"""The operator's lease, as who is about to uninstall it sees it.

In: a client, the operator's namespace. Out: nobody holds the lease any more, or it is named who does. What is removed while an operator
acts is made again.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from apportion.errors import ApiError, Missing
from apportion.settings import LeaseSettings

_NAME: Final = LeaseSettings().name
_LOOK = 0.25
"""Seconds between two looks at the lease."""
_RENEWALS = 3
"""Renewals of the lease after which its holder acts; one that is about to stop may renew it, too."""


async def require_stopped(client: Client, namespace: str, say: Callable[[str], None]) -> None:
    """Wait until no operator holds the lease, or it is over by our own clock: one that was killed has not released it.

    Where there is no lease in the namespace, one that is held in another counts: an operator there acts on the same objects.
    `say` is called once where it has to be waited for. Raises ApiError while one renews it: it would create again what is removed.
    """
    version, since, renewals = "", 0.0, -1
    while True:
        try:
            lease = await client.get(LEASES, _NAME, namespace=namespace)
        except Missing:
            elsewhere = await _elsewhere(client)
            if elsewhere is None:
                return
            namespace = elsewhere
            continue
        spec, now = lease.get("spec") or {}, time.monotonic()
        holder = spec.get("holderIdentity")
        if not holder:
            return
        if lease["metadata"]["resourceVersion"] != version:
            version, since, renewals = lease["metadata"]["resourceVersion"], now, renewals + 1
        held = f"lease {namespace}/{_NAME} is held by {holder}"
        if renewals == _RENEWALS:
            raise ApiError(
                f"{held}: stop the operator first"
                f" (kubectl -n {namespace} scale deployment apportion-operator --replicas=0)"
            )
        term = float(spec.get("leaseDurationSeconds") or LeaseSettings().duration)
        if now - since > term:
            return
        if not renewals and since == now:
            say(f"{held}: waiting for its end, {term:.0f} s at most if the operator has stopped")
        await asyncio.sleep(_LOOK)


async def _elsewhere(client: Client) -> str | None:
    """Return the namespace of an operator's lease that is held; None: there is none."""
    listed = await client.list(LEASES, fieldSelector=f"metadata.name={_NAME}")
    for lease in listed.get("items") or ():
        if lease["metadata"]["name"] == _NAME and (lease.get("spec") or {}).get("holderIdentity"):
            return str(lease["metadata"]["namespace"])
    return None
