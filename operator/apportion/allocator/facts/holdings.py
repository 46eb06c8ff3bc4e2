"""Holdings: the devices that allocations hold, and what these consume of the counters of their pools.

In: allocations by key. Out: devices in use, capacity in use, counters in use. A device's consumption of counters is kept
as it was when the device was taken: no counter is freed because a driver changes or withdraws the device
(kubernetes/kubernetes #140802). What a driver adds to it counts, too, and what the allocation says (ADR 45). So it is where a device is
released for a moment and held again.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Sized
from typing import TypeAlias

from apportion.allocator.changelog import ChangeLog
from apportion.allocator.rules.capacity import differing
from apportion.dra.allocation import DeviceResult
from apportion.dra.consumedcounters import CounterAmounts, larger
from apportion.dra.device import Device, DeviceId
from apportion.dra.slice import PoolId

Change: TypeAlias = tuple[PoolId, str, CounterAmounts | None, int]
"""Pool, device, consumption, sign: a device whose holders changed; the consumption is added (1), removed (-1) or kept (0)."""
ConsumptionOf: TypeAlias = Callable[[str], CounterAmounts | None]
"""Returns the consumption of a pool's device by its name; None: it is in no slice."""
Resolve: TypeAlias = Callable[[PoolId], ConsumptionOf]


def _most_changes(keys: Sized) -> int:
    """Return how many changes are remembered beside so many keys: a reader that is further behind looks at all of them."""
    return max(4096, 4 * len(keys))


def _unknown(_device: str) -> CounterAmounts | None:
    return None


class DeviceHolding:
    """One device in use, by one key or several."""

    __slots__ = ("_alike", "_capacity", "_exclusive", "_key", "_more", "_result", "consumption")

    def __init__(self, key: str, result: DeviceResult, consumption: CounterAmounts | None) -> None:
        # Nearly every device has one holder, so the first needs no list.
        self._key = key
        self._result: DeviceResult | None = result
        self._more: list[tuple[str, DeviceResult]] | None = None
        self.consumption = consumption
        """None: the device was in no slice yet."""
        self._exclusive: bool | None = None
        self._capacity: dict[str, int] | None = None
        self._alike = True
        """Whether all shares name the same capacities; known with `_capacity`."""

    def rows(self) -> list[tuple[str, DeviceResult]]:
        """Return the keys that hold the device, each with its result."""
        first = [(self._key, self._result)] if self._result is not None else []
        return first + self._more if self._more else first

    def add(self, key: str, result: DeviceResult) -> None:
        """Add a holder, or another share of the same holder."""
        if self._more is None:
            self._more = []
        self._more.append((key, result))
        self._exclusive = self._capacity = None

    def remove(self, key: str) -> bool:
        """Remove a holder with all its shares; say whether it held any."""
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
        """Whether no key holds it."""
        return self._result is None and not self._more

    @property
    def holders(self) -> tuple[str, ...]:
        """The keys that hold it, sorted."""
        return tuple(sorted({key for key, _ in self.rows()}))

    @property
    def exclusive(self) -> bool:
        """Whether a key holds the device as a whole."""
        if self._exclusive is None:
            self._exclusive = any(result.share_id is None for _, result in self.rows())
        return self._exclusive

    @property
    def capacity(self) -> dict[str, int]:
        """Capacity that shares consume, by name, in 10^-9."""
        if self._capacity is None:
            used: dict[str, int] = {}
            rows, named = self.rows(), 0
            for _, result in rows:
                consumed = result.consumed
                named += len(consumed)
                for name, amount in consumed.items():
                    used[name] = used.get(name, 0) + amount.nano
            self._alike = named == len(rows) * len(used)
            self._capacity = used
        return self._capacity

    def differing(self, device: Device) -> str | None:
        """Return a capacity by which its shares are not of the device as it is published; None if there is none."""
        if self.capacity.keys() == device.capacity.keys() and self._alike:
            return None
        return differing([result.consumed for _, result in self.rows()], device)


class Holdings:
    """The devices that each key holds. Every change returns the devices concerned."""

    def __init__(self) -> None:
        self._by_key: dict[str, tuple[DeviceResult, ...]] = {}
        self._pools: dict[PoolId, dict[str, DeviceHolding]] = {}
        self._released: dict[PoolId, dict[str, tuple[str, CounterAmounts | None]]] = {}
        """By pool and device: who released it, and what it consumed; since `forget_released`. The last one, but for one before who consumed something else."""
        self.changes: ChangeLog[DeviceId] = ChangeLog()
        """Devices that were held or released."""

    def hold(self, key: str, results: Sequence[DeviceResult], resolve: Resolve) -> list[Change]:
        """Record that `key` holds these devices, instead of those before; results with admin access occupy nothing."""
        touched = self.release(key)
        kept = tuple([result for result in results if not result.admin_access])
        if kept:
            self._by_key[key] = kept
        pool: PoolId | None = None
        held: dict[str, DeviceHolding] = {}
        consumption_of: ConsumptionOf = _unknown
        for result in kept:
            self.changes.add(result.device, most=_most_changes(self._by_key))
            driver, pool_name, name = result.device
            if pool is None or pool.name != pool_name or pool.driver != driver:
                pool = PoolId(driver, pool_name)
                held = self._pools.setdefault(pool, {})
                consumption_of = resolve(pool)
            holding, former = held.get(name), self._released.get(pool, {}).get(name)
            said = result.counters
            if holding is None:
                consumption = consumption_of(name)
                if former is not None and (consumption is None or former[0] == key):
                    consumption = former[1]
                consumption = larger(consumption, said)
                held[name] = DeviceHolding(key, result, consumption)
                touched.append((pool, name, consumption, 1))
                continue
            holding.add(key, result)
            before = holding.consumption
            consumption = consumption_of(name) if before is None else before
            if former is not None and former[0] == key and before is not None:
                # One that shared it came back before the last one that had it.
                consumption = larger(consumption, former[1])
            holding.consumption = larger(consumption, said)
            touched.append((pool, name, holding.consumption, int(holding.consumption is not before)))
        return touched

    def release(self, key: str) -> list[Change]:
        """Release all that `key` holds."""
        touched: list[Change] = []
        results = self._by_key.pop(key, None)
        if results is None:
            return touched
        pool: PoolId | None = None
        held: dict[str, DeviceHolding] = {}
        for result in results:
            self.changes.add(result.device, most=_most_changes(self._by_key))
            driver, pool_name, name = result.device
            if pool is None or pool.name != pool_name or pool.driver != driver:
                pool = PoolId(driver, pool_name)
                held = self._pools.get(pool, {})
            # A claim may hold several shares of one device; its first result removes all of them.
            holding = held.get(name)
            if holding is None or not holding.remove(key) or not holding.free:
                touched.append((pool, name, None, 0))
                continue
            touched.append((pool, name, holding.consumption, -1))
            released, taken = self._released.setdefault(pool, {}), holding.consumption
            former = released.get(name)
            # Who held it in between consumed what slices say; the one before, who consumed something else, may come back.
            if former is None or former[1] is taken or former[0] == key or former[1] == taken:
                released[name] = key, taken
            del held[name]
            if not held:
                del self._pools[pool]
        return touched

    def resolve(
        self, pool: PoolId, resolve: Resolve, published: Iterable[tuple[str, CounterAmounts]] = ()
    ) -> None:
        """Set the consumption of the pool's devices that were in no slice when they were taken, and are in one now.

        `published`: what devices of a slice consume now, of which those taken before count the larger amount of each counter: a driver
        may rename its counters or change their units, and what was taken of the former ones would leave the new ones free.
        """
        held = self.held(pool)
        for name, holding in held.items():
            if holding.consumption is None:
                holding.consumption = resolve(pool)(name)
        for name, now in published if held else ():
            known = held.get(name)
            if known is not None and known.consumption is not None and now is not known.consumption:
                known.consumption = larger(known.consumption, now)

    def forget_released(self) -> None:
        """Forget what devices consumed that were released: who takes one from now on consumes what slices say."""
        self._released.clear()

    def held(self, pool: PoolId) -> Mapping[str, DeviceHolding]:
        """Return the holdings of a pool by device name."""
        return self._pools.get(pool, {})

    def counters(self, pool: PoolId) -> CounterAmounts:
        """Return what is in use of a pool's counters, in 10^-9. Computed by each call."""
        used: dict[tuple[str, str], int] = {}
        for holding in self.held(pool).values():
            if holding.consumption:
                for name, amount in holding.consumption.items():
                    used[name] = used.get(name, 0) + amount
        return used

    def holds(self, key: str, results: Sequence[DeviceResult]) -> bool:
        """Say whether a key holds just these devices; those with admin access are held by nobody."""
        return self._by_key.get(key, ()) == tuple([each for each in results if not each.admin_access])

    def holders(self, device: DeviceId) -> tuple[str, ...]:
        """Return the keys that hold the device, sorted."""
        holding = self._pools.get(PoolId(device.driver, device.pool), {}).get(device.name)
        return holding.holders if holding else ()

    def kept(self, key: str, aside: Collection[str]) -> tuple[DeviceResult, ...]:
        """Return the devices that a key keeps from others: that no other key holds as a whole, those `aside` not counted."""
        found: list[DeviceResult] = []
        for result in self._by_key.get(key, ()):
            driver, pool_name, name = result.device
            rows = self._pools[PoolId(driver, pool_name)][name].rows()
            if not any(each not in aside and held.share_id is None for each, held in rows):
                found.append(result)
        return tuple(found)

    def held_by_key(self) -> Mapping[str, tuple[DeviceResult, ...]]:
        """Return the devices that each key holds (a copy)."""
        return dict(self._by_key)

    def keys(self) -> Iterable[str]:
        """Return every key that holds a device."""
        return self._by_key.keys()
