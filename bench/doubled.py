"""Devices that several claims have.

In: ResourceClaims as the API server lists them. Out: driver, pool and device of each that more than one was allocated.
It shares no code with the operator, which finds them by its own snapshot.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from testbed.api import Json
from testbed.errors import TestbedError


def results(claims: Iterable[Json]) -> Iterator[Json]:
    """Yield the devices that claims have (`status.allocation.devices.results`)."""
    for claim in claims:
        yield from claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ())


def doubled(claims: Iterable[Json]) -> list[tuple[str, str, str]]:
    """Return whole devices that were allocated twice; counters and shared capacity are left out."""
    held = Counter((result["driver"], result["pool"], result["device"]) for result in results(claims))
    return [device for device, times in held.items() if times > 1]


def refuse_doubled(claims: Iterable[Json]) -> None:
    """Raise TestbedError unless each whole device was allocated at most once."""
    if twice := doubled(claims):
        raise TestbedError(f"allocated twice: {twice[:5]}")
