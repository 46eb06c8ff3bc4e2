"""Writes that are under way when their leader may not write any more, or has given them up: then a device can be given twice.

In: the operators' proxies, what makes pods come and go. Out: two disturbances, each true if there was a leader to disturb. While allocations
are held up devices become free, which the leader gives away; then urgent pods come, whose turn is before that of the claims whose writes are held up. Without
them the next leader, which knows nothing of these writes, would give the same devices to the same claims, and the server would refuse the former write.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from testbed.faultyproxy import Fault, FaultyProxy, Rule
from testbed.soak.churn import Churn

_ALLOCATIONS: Final = "/resourceclaims/[^/]*/status"
_LEASES: Final = "/leases/"
_HELD_SECONDS: Final = 4.8
"""How long a write is held up that its sender still waits for: less than it must find left of its lease (`LeaseSettings.reserve`)."""
_GIVEN_UP_SECONDS: Final = 6.5
"""The same, longer than any sender waits (5 s)."""
_ENDED: Final = 4
"""Units that end at a time, so that devices become free."""
_PATIENCE_SECONDS: Final = 12.0
"""How long a renewal of the lease is waited for; a leader renews it every three seconds."""
_LOOK_SECONDS: Final = 0.05

Aim = Callable[[FaultyProxy, Sequence[Rule]], None]
"""Sets the rules that go before all others of a proxy."""


class HeldWrites:
    """Holds up the leader's allocations."""

    def __init__(self, proxies: Sequence[FaultyProxy], aim: Aim, churn: Churn) -> None:
        self._proxies = proxies
        self._aim = aim
        self._churn = churn

    async def lease_lost(self) -> bool:
        """Lose the leader's renewals, so that another replica leads after 9 s, and hold up its allocations until they would be carried out then."""
        leader = await self._leader()
        if leader is None:
            return False
        held = Rule(Fault.HOLD_REQUEST, "PATCH", _ALLOCATIONS, seconds=_HELD_SECONDS)
        self._aim(leader, (Rule(Fault.DROP_REQUEST, "", _LEASES), held))
        try:
            # Devices are free about two seconds after that, while the former leader still decides; the next one acts after ten.
            for pause in (3.5, 2.0):
                await asyncio.sleep(pause)
                await self._churn.end_some(_ENDED)
            await asyncio.sleep(3.3)
            await self._churn.make_urgent()
            await asyncio.sleep(6.2)
        finally:
            self._aim(leader, ())
        return True

    async def given_up(self) -> bool:
        """Hold up the leader's allocations until it has given up to wait for their answers."""
        leader = await self._leader()
        if leader is None:
            return False
        self._aim(leader, (Rule(Fault.HOLD_REQUEST, "PATCH", _ALLOCATIONS, seconds=_GIVEN_UP_SECONDS),))
        try:
            await self._churn.end_some(2 * _ENDED)
            await asyncio.sleep(5.0)
            await self._churn.make_urgent()
            await asyncio.sleep(5.0)
        finally:
            self._aim(leader, ())
        return True

    async def _leader(self) -> FaultyProxy | None:
        """Wait until the lease is renewed; returns the proxy of the replica that did it."""
        seen = [len(proxy.answered) for proxy in self._proxies]
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while True:
                    for index, proxy in enumerate(self._proxies):
                        fresh = proxy.answered[seen[index] :]
                        seen[index] += len(fresh)
                        if any(what.startswith("PUT ") and _LEASES in what for what in fresh):
                            return proxy
                    await asyncio.sleep(_LOOK_SECONDS)
        return None
