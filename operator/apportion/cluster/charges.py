"""Charges: the devices that the allocator's state holds, by claim.

In: allocations that were observed or assumed, and those that a claim has lost while pods that reserved
it still run. Out: the state holds their devices; the cards behind them are marked as changed.
"""

from apportion.allocator.state import State
from apportion.cluster.indexes.deviceindex import DeviceIndex
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim


class Charges:
    """What the state holds for claims, by UID."""

    def __init__(self, state: State, devices: DeviceIndex) -> None:
        self._state = state
        self._devices = devices
        self._held: dict[str, Allocation] = {}

    def put(self, uid: str, allocation: Allocation | None) -> bool:
        """Hold what a claim has or is about to get; None: nothing. Says whether some of what it had is free now."""
        before = self._held.get(uid)
        if allocation == before:
            return False
        self.touch(before, allocation)
        if allocation is not None:
            self._held[uid] = allocation
            self._state.hold(uid, allocation.results)
        else:
            del self._held[uid]
            self._state.release(uid)
        return before is not None and (allocation is None or not allocation.keeps(before))

    def put_ended(self, uid: str, claim: Claim | None) -> None:
        """Hold what pods still use of a claim that has lost it; `claim`: as it was, None: no pod uses it any more."""
        key = f"ended:{uid}"
        if claim is not None and claim.allocation is not None:
            self._state.hold(key, claim.allocation.results)
        else:
            self._state.release(key)

    def touch(self, *allocations: Allocation | None) -> None:
        """Mark the cards of these allocations as changed."""
        for allocation in allocations:
            for result in allocation.results if allocation is not None else ():
                self._devices.touch(result.device)
