"""Who answers, and who leads.

In: the Lease of the operator. Out: whether the replica beside which this page runs leads, or who else does.
"""

import asyncio
from dataclasses import dataclass

from apportion.cluster.client import Client
from apportion.cluster.kinds import LEASES
from apportion.errors import ApiError, Missing

_PACE = 2.0
"""Seconds between two looks at the Lease."""


@dataclass(frozen=True, slots=True)
class Leader:
    """What is known of the leader."""

    name: str
    """Identity of the replica that leads; empty: none does, or it is not known."""
    known: bool
    """Whether the Lease could be read when it was last looked at."""


class Replica:
    """Follows the Lease."""

    def __init__(self, client: Client, namespace: str, lease: str, identity: str) -> None:
        """`identity`: of the operator beside which this page runs; empty: a person runs it."""
        self.identity = identity
        self.leader = Leader("", known=False)
        self._client = client
        self._namespace = namespace
        self._lease = lease

    async def run(self) -> None:
        """Look at the Lease until cancelled."""
        while True:
            try:
                found = await self._client.get(LEASES, self._lease, namespace=self._namespace)
                self.leader = Leader(str((found.get("spec") or {}).get("holderIdentity") or ""), known=True)
            except Missing:
                self.leader = Leader("", known=True)
            except ApiError:
                self.leader = Leader("", known=False)
            await asyncio.sleep(_PACE)
