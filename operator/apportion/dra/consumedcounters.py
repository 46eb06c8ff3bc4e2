"""ConsumedCounters: what the devices of an allocation consume of the counters of their pools, written down in the allocation.

In: amounts by device. Out: entries of the allocation's config (API `DeviceAllocationConfiguration`), and the amounts again (ADR 45).
An allocation names devices, and what these consume stands in their slices alone. After a driver has withdrawn a device that a claim
has, nobody can read it any more (kubernetes/kubernetes #140802). The entries are for the operator: a driver reads those with its own name.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import orjson

from apportion.dra import reading
from apportion.dra.device import DeviceId, consumptions_from_json
from apportion.dra.quantity import Quantity
from apportion.errors import BrokenInput

CounterAmounts: TypeAlias = Mapping[tuple[str, str], int]
"""Amounts in 10^-9 by (counter set, counter)."""

GROUPS: Final = "groups="
"""Begins the entry, beside the counters of a set, that names the compatibility groups of what is consumed. No counter has such a name."""
NO_GROUP: Final = frozenset(("",))
"""The group of devices that name none: they are in use together with one another only (KEP of compatibility groups)."""

WRITER: Final = "apportion.dev"
"""The driver's name in the entries; no driver has it."""
SOURCE: Final = "FromClass"
"""Where an entry says that it comes from. What a claim's author writes is copied as FromClaim, so that no tenant can write amounts."""
_KIND: Final = {"apiVersion": "apportion.dev/v1alpha1", "kind": "ConsumedCounters"}
_LONGEST = 9 * 1024
"""Bytes of the devices of one entry; the API server takes 10 KiB of parameters (API `OpaqueParametersMaxLength`)."""


def larger(before: CounterAmounts | None, now: CounterAmounts | None) -> CounterAmounts | None:
    """Return the larger amount of each counter; the same object where it says so already. None: unknown."""
    if before is None or now is None:
        return now if before is None else before
    if all(before.get(counter, 0) >= amount for counter, amount in now.items()):
        return before
    return {**before, **{counter: max(amount, before.get(counter, 0)) for counter, amount in now.items()}}


def written(amounts: Iterable[tuple[DeviceId, CounterAmounts]], most: int) -> tuple[dict[str, Any], ...]:
    """Return the opaque parameters of entries that say what devices consume; none where more than `most` would be needed."""
    entries: list[list[dict[str, Any]]] = []
    room = 0
    for device, consumed in amounts:
        row = _row(device, consumed)
        length = len(orjson.dumps(row)) + 1
        if length > room:
            entries.append([])
            room = _LONGEST
        entries[-1].append(row)
        room -= length
    if len(entries) > most:
        return ()
    return tuple({"driver": WRITER, "parameters": {**_KIND, "devices": rows}} for rows in entries)


def amounts_in(opaque: Mapping[str, Any] | None) -> Iterator[tuple[DeviceId, CounterAmounts]]:
    """Yield what the parameters of an entry with source FromClass say. Parameters that are no such record, or cannot be read, say nothing."""
    if opaque is None or opaque.get("driver") != WRITER:
        return
    try:
        parameters = reading.table(opaque, "parameters", at="opaque")
        if parameters.get("kind") != _KIND["kind"]:
            return
        for path, row in reading.rows(parameters, "devices", at="parameters"):
            yield _device(row, path), _amounts(row, path)
    except BrokenInput:
        return


def groups_entry(groups: Iterable[str]) -> str:
    """Return the entry for these compatibility groups; its amount is 1."""
    return GROUPS + ",".join(sorted(set(groups)))


def groups_by_set(consumed: CounterAmounts) -> dict[str, frozenset[str]]:
    """Return the compatibility groups by counter set. Of several readings of a device those count that all have; none: it is compatible with nothing."""
    named: dict[str, frozenset[str]] = {}
    for counter_set, name in consumed:
        if name.startswith(GROUPS):
            own = frozenset(name.removeprefix(GROUPS).split(","))
            named[counter_set] = named.get(counter_set, own) & own
    return {counter_set: named.get(counter_set, NO_GROUP) for counter_set, _ in consumed}


def _row(device: DeviceId, consumed: CounterAmounts) -> dict[str, Any]:
    sets: dict[str, dict[str, Any]] = {}
    for (counter_set, counter), nano in consumed.items():
        sets.setdefault(counter_set, {})[counter] = {"value": str(Quantity(nano, "BinarySI"))}
    taken = [{"counterSet": name, "counters": counters} for name, counters in sets.items()]
    return {"driver": device.driver, "pool": device.pool, "device": device.name, "consumesCounters": taken}


def _device(row: reading.Json, at: str) -> DeviceId:
    driver, pool, name = (reading.text(row, key, at=at) for key in ("driver", "pool", "device"))
    return DeviceId(driver, pool, name)


def _amounts(row: reading.Json, at: str) -> CounterAmounts:
    return {
        (need.counter_set, name): max(0, amount.nano)
        for need in consumptions_from_json(row.get("consumesCounters"), at)
        for name, amount in need.counters
    }
