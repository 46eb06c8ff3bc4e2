"""Who holds which devices, and what that takes from the counters of their pools.

In: allocations by key. Out: devices in use, capacity in use, counters in use. A device's consumption of counters is
remembered from when it was taken: a driver that publishes the device anew, or no longer, frees nothing by that
(kubernetes/kubernetes #140802).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.slice import PoolId

Consumption: TypeAlias = Mapping[tuple[str, str], int]
Change: TypeAlias = tuple[PoolId, str, Consumption | None, int]
"""A device whose holders changed, and what that takes from counters: 1 more, -1 less, 0 as before."""
Taken: TypeAlias = Callable[[str], Consumption | None]
"""Says what a device of a pool takes from counters, by its name; None: it is in no slice."""
Resolve: TypeAlias = Callable[[PoolId], Taken]


def _nothing(_device: str) -> Consumption | None:
    return None


class DeviceHolding:
    """One device in use, by one holder or several."""

    __slots__ = ("_capacity", "_exclusive", "_key", "_more", "_result", "consumption")

    def __init__(self, key: str, result: DeviceResult, consumption: Consumption | None) -> None:
        # Nearly every device has one holder, so that one is kept without a table.
        self._key = key
        self._result: DeviceResult | None = result
        self._more: list[tuple[str, DeviceResult]] | None = None
        self.consumption = consumption
        """None: the device was in no slice yet."""
        self._exclusive: bool | None = None
        self._capacity: dict[str, int] | None = None

    def rows(self) -> list[tuple[str, DeviceResult]]:
        """Return who holds what of it."""
        first = [(self._key, self._result)] if self._result is not None else []
        return first + self._more if self._more else first

    def add(self, key: str, result: DeviceResult) -> None:
        """Let the key hold the device as well, or another share of it."""
        if self._more is None:
            self._more = []
        self._more.append((key, result))
        self._exclusive = self._capacity = None

    def remove(self, key: str) -> bool:
        """Let the key hold it no longer; say whether it did."""
        self._exclusive = self._capacity = None
        found = False
        if self._result is not None and self._key == key:
            self._result = None
            found = True
        if self._more:
            kept = [row for row in self._more if row[0] != key]
            found = found or len(kept) < len(self._more)
            self._more = kept
        return found

    @property
    def free(self) -> bool:
        """Whether nobody holds it any longer."""
        return self._result is None and not self._more

    @property
    def holders(self) -> tuple[str, ...]:
        """Return the keys that hold it, sorted."""
        return tuple(sorted({key for key, _ in self.rows()}))

    @property
    def exclusive(self) -> bool:
        """Whether some holder has the device as a whole."""
        if self._exclusive is None:
            self._exclusive = any(result.share_id is None for _, result in self.rows())
        return self._exclusive

    @property
    def capacity(self) -> dict[str, int]:
        """Capacity that shares consume, by name, in 10^-9."""
        if self._capacity is None:
            used: dict[str, int] = {}
            for _, result in self.rows():
                for name, amount in result.consumed.items():
                    used[name] = used.get(name, 0) + amount.nano
            self._capacity = used
        return self._capacity


class Holdings:
    """All holdings. Every change names the pools that it touched."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[DeviceResult, ...]] = {}
        self._pools: dict[PoolId, dict[str, DeviceHolding]] = {}

    def hold(self, key: str, results: Sequence[DeviceResult], resolve: Resolve) -> list[Change]:
        """Let `key` hold these devices, in place of those it held before; admin access occupies nothing."""
        touched = self.release(key)
        kept = tuple([result for result in results if not result.admin_access])
        if kept:
            self._by_key[key] = kept
        pool: PoolId | None = None
        held: dict[str, DeviceHolding] = {}
        taken_by: Taken = _nothing
        for result in kept:
            driver, where, name = result.device
            if pool is None or pool.name != where or pool.driver != driver:
                pool = PoolId(driver, where)
                held = self._pools.setdefault(pool, {})
                taken_by = resolve(pool)
            holding = held.get(name)
            if holding is None:
                consumption = taken_by(name)
                held[name] = DeviceHolding(key, result, consumption)
                touched.append((pool, name, consumption, 1))
                continue
            holding.add(key, result)
            taken = 0
            if holding.consumption is None:
                holding.consumption = taken_by(name)
                taken = 1
            touched.append((pool, name, holding.consumption, taken))
        return touched

    def release(self, key: str) -> list[Change]:
        """Let `key` hold nothing."""
        touched: list[Change] = []
        results = self._by_key.pop(key, None)
        if results is None:
            return touched
        pool: PoolId | None = None
        held: dict[str, DeviceHolding] = {}
        for result in results:
            driver, where, name = result.device
            if pool is None or pool.name != where or pool.driver != driver:
                pool = PoolId(driver, where)
                held = self._pools.get(pool, {})
            # A claim may hold several shares of one device; the first one let go of all.
            holding = held.get(name)
            if holding is None or not holding.remove(key) or not holding.free:
                touched.append((pool, name, None, 0))
                continue
            touched.append((pool, name, holding.consumption, -1))
            del held[name]
            if not held:
                del self._pools[pool]
        return touched

    def resolve(self, pool: PoolId, resolve: Resolve) -> None:
        """Charge the devices of a pool that were in no slice when they were taken and are in one now."""
        for name, holding in self._pools.get(pool, {}).items():
            if holding.consumption is None:
                holding.consumption = resolve(pool)(name)

    def held(self, pool: PoolId) -> Mapping[str, DeviceHolding]:
        """Return the holdings of a pool by device name."""
        return self._pools.get(pool, {})

    def counters(self, pool: PoolId) -> Mapping[tuple[str, str], int]:
        """Return what is in use of a pool's counters, in 10^-9; counted anew."""
        used: dict[tuple[str, str], int] = {}
        for holding in self.held(pool).values():
            if holding.consumption:
                for name, amount in holding.consumption.items():
                    used[name] = used.get(name, 0) + amount
        return used

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return the keys that hold the device, sorted."""
        holding = self._pools.get(PoolId(device.driver, device.pool), {}).get(device.name)
        return holding.holders if holding else ()

    def keys(self) -> Iterable[str]:
        """Return every key that holds something."""
        return self._by_key.keys()
