"""The operator's lease, as who is about to uninstall it sees it.

In: a client, the operator's namespace. Out: nobody holds the lease any more, or it is named who does. What is removed while an operator
acts is made again.
"""

import asyncio
import time
from collections.abc import Callable

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from apportion.errors import ApiError, Missing
from apportion.settings import LeaseSettings

_LOOK = 0.25
"""Seconds between two looks at the lease."""
_RENEWALS = 3
"""Renewals of the lease after which its holder acts; one that is about to stop may renew it, too."""


async def require_stopped(client: Client, namespace: str, say: Callable[[str], None]) -> None:
    """Wait until no operator holds the lease, or it is over by our own clock: one that was killed has not released it.

    `say` is called once where it has to be waited for. Raises ApiError while one renews it: it would create again what is removed.
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
            say(f"{held}: waiting for its end, {term:.0f} s at most if the operator has stopped")
        await asyncio.sleep(_LOOK)
