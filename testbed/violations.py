"""Rules that must hold between API objects and hardware, checked without the product's code.

In: API objects, the state of the simulated hardware. Out: violations in words. Quantities, counters and placements are read and
summed here again, so that an error of the product is not repeated.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from testbed.api import Json

DeviceKey = tuple[str, str, str]
"""Driver, pool and device; or driver, pool and counter set."""
Row = Mapping[str, Any]
"""One partition in the state file of a simulated node."""

_NUMBER = re.compile(r"(-?[0-9.]+)([a-zA-Z]*)")
_UNITS = {"": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18, "m": -3, "u": -6, "n": -9}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def number(quantity: str) -> Fraction:
    """Return the value of a Kubernetes quantity, exactly. Raises ValueError for what is none."""
    found = _NUMBER.fullmatch(quantity)
    if found is None or (found[2] not in _UNITS and found[2] not in _BINARY):
        raise ValueError(f"{quantity!r} is no quantity")
    value = Fraction(found[1])
    return value * 2 ** _BINARY[found[2]] if found[2] in _BINARY else value * Fraction(10) ** _UNITS[found[2]]


@dataclass(frozen=True, slots=True)
class Use:
    """A device, or a share of one, that one claim or container has and nobody else may have."""

    user: str
    """A claim or a container, in words."""
    device: DeviceKey
    share: str = ""
    """Its `shareID`; empty: the whole device."""
    consumed: tuple[tuple[str, Fraction], ...] = ()
    """What a share consumes of the device's capacities."""


@dataclass(slots=True)
class Devices:
    """Every device and counter set that slices ever published, also those that are gone."""

    nodes: dict[DeviceKey, str] = field(default_factory=dict)
    takes: dict[DeviceKey, dict[DeviceKey, dict[str, Fraction]]] = field(default_factory=dict)
    """By device, then counter set, then counter."""
    whole: dict[DeviceKey, dict[str, Fraction]] = field(default_factory=dict)
    """By counter set: what the largest device, the whole card, takes."""
    capacity: dict[DeviceKey, dict[str, Fraction]] = field(default_factory=dict)
    """By device: the most that was ever published, because a driver publishes less while a claim that has lost its share still runs."""
    parts: set[DeviceKey] = field(default_factory=set)
    """The devices that are partitions."""
    published: dict[DeviceKey, dict[str, Fraction]] = field(default_factory=dict)
    """By counter set: the last published counters, which are less while layouts or foreign partitions occupy the card."""

    def learn(self, piece: Json) -> None:
        """Read one ResourceSlice."""
        spec = piece["spec"]
        driver, pool = spec["driver"], spec["pool"]["name"]
        for each in spec.get("sharedCounters") or ():
            self.published[driver, pool, each["name"]] = _amounts(each)
        for device in spec.get("devices") or ():
            key = (driver, pool, device["name"])
            self.nodes[key] = spec.get("nodeName", "")
            if device.get("attributes", {}).get("type", {}).get("string") in ("mig", "vnpu"):
                self.parts.add(key)
            _raise(self.capacity.setdefault(key, {}), _values(device.get("capacity", {})))
            self.takes[key] = {}
            for each in device.get("consumesCounters") or ():
                counter_set = (driver, pool, each["counterSet"])
                taken = self.takes[key][counter_set] = _amounts(each)
                _raise(self.whole.setdefault(counter_set, {}), taken)


def _amounts(raw: Json) -> dict[str, Fraction]:
    return _values(raw["counters"])


def _values(raw: Json) -> dict[str, Fraction]:
    return {name: number(each["value"]) for name, each in raw.items()}


def _raise(most: dict[str, Fraction], amounts: Mapping[str, Fraction]) -> None:
    most.update({name: max(amount, most.get(name, amount)) for name, amount in amounts.items()})


def claim_title(claim: Json) -> str:
    """Return namespace, name and UID of a claim in words."""
    metadata = claim["metadata"]
    return f"{metadata['namespace']}/{metadata['name']} ({metadata['uid']})"


def uses(claim: Json) -> Iterator[Use]:
    """Yield the devices and shares that a claim has, as often as its allocation names them; not what it has by admin access."""
    for result in _results(claim):
        if not result.get("adminAccess"):
            consumed = result.get("consumedCapacity") or {}
            amounts = tuple(sorted((name, number(amount)) for name, amount in consumed.items()))
            yield Use(claim_title(claim), _key(result), result.get("shareID") or "", amounts)


def watched_devices(claim: Json) -> Iterator[DeviceKey]:
    """Yield the devices that a claim has by admin access, beside those who use them."""
    return (_key(result) for result in _results(claim) if result.get("adminAccess"))


def _results(claim: Json) -> Sequence[Json]:
    allocation = claim.get("status", {}).get("allocation") or {}
    return allocation.get("devices", {}).get("results") or ()


def _key(result: Json) -> DeviceKey:
    return result["driver"], result["pool"], result["device"]


def used_twice(live: Iterable[Use]) -> Iterator[str]:
    """Yield every device, and every share, that is used twice at one time, also by one claim; a share clashes with the whole device."""
    users: dict[DeviceKey, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for use in live:
        users[use.device][use.share].append(use.user)
    for device, shares in users.items():
        about = f"device {'/'.join(device)} is used twice: by"
        for several in shares.values():
            if len(several) > 1:
                yield f"{about} {' and '.join(sorted(several))}"
        if "" in shares and len(shares) > 1:
            sharing = sorted({user for share, several in shares.items() if share for user in several})
            yield f"{about} {' and '.join(sorted(shares['']))}, and in shares by {' and '.join(sharing)}"


def overdrawn(
    live: Iterable[Use], devices: Devices, limits: Mapping[DeviceKey, Mapping[str, Fraction]]
) -> Iterator[str]:
    """Yield every counter of which more is used than `limits` allows, and every capacity of which shares consume more than was ever published.

    A device takes its counters once, however many share it. Sets without a limit are skipped, and capacities that no slice has had yet.
    """
    live = set(live)
    users: dict[DeviceKey, set[str]] = defaultdict(set)
    for use in live:
        users[use.device].add(use.user)
    counters = (
        (counter_set, f"{device[2]} by {' and '.join(sorted(several))}", taken)
        for device, several in users.items()
        for counter_set, taken in devices.takes.get(device, {}).items()
        if counter_set in limits
    )
    yield from _beyond(counters, limits)
    shares = (
        (use.device, use.user, {name: amount for name, amount in use.consumed if name in known})
        for use in live
        if (known := devices.capacity.get(use.device))
    )
    yield from _beyond(shares, devices.capacity)


def _beyond(
    taken: Iterable[tuple[DeviceKey, str, Mapping[str, Fraction]]],
    limits: Mapping[DeviceKey, Mapping[str, Fraction]],
) -> Iterator[str]:
    """Yield what is taken beyond its limits; `taken`: of what, by whom, how much."""
    sums: dict[DeviceKey, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    takers: dict[DeviceKey, set[str]] = defaultdict(set)
    for whose, taker, amounts in taken:
        takers[whose].add(taker)
        for name, amount in amounts.items():
            sums[whose][name] += amount
    for whose, used in sums.items():
        sizes = [
            (name, amount, limits[whose].get(name, Fraction(0))) for name, amount in sorted(used.items())
        ]
        over = [
            f"{name} {float(amount):g} of {float(size):g}" for name, amount, size in sizes if amount > size
        ]
        if over:
            yield (
                f"{'/'.join(whose)} is used beyond its size ({', '.join(over)})"
                f" by {', '.join(sorted(takers[whose]))}"
            )


def claims_of(pod: Json) -> list[str]:
    """Return the names of the claims that a pod uses and that exist."""
    made = {
        row["name"]: row.get("resourceClaimName")
        for row in pod.get("status", {}).get("resourceClaimStatuses") or ()
    }
    entries = pod["spec"].get("resourceClaims") or ()
    names = [entry.get("resourceClaimName") or made.get(entry["name"]) for entry in entries]
    return [name for name in names if name]


def misplaced(pods: Iterable[Json], claims: Iterable[Json], devices: Devices) -> Iterator[str]:
    """Yield bound pods that are not where their claims' devices are, or whose claims are not allocated to them."""
    by_name = {(each["metadata"]["namespace"], each["metadata"]["name"]): each for each in claims}
    for pod in pods:
        metadata, node = pod["metadata"], pod["spec"].get("nodeName")
        ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        if node is None or ended or "deletionTimestamp" in metadata:
            continue
        about = f"pod {metadata['namespace']}/{metadata['name']} on {node}"
        for name in claims_of(pod):
            claim = by_name.get((metadata["namespace"], name), {})
            if metadata["uid"] not in {
                row["uid"] for row in claim.get("status", {}).get("reservedFor") or ()
            }:
                yield f"{about}: claim {name} is not reserved for it"
            places = {devices.nodes.get(_key(result), node) for result in _results(claim)}
            if not places:
                yield f"{about}: claim {name} has no devices"
            elif places != {node}:
                yield f"{about}: claim {name} has devices on {', '.join(sorted(places))}"


def overlapping(node: str, rows: Iterable[Row]) -> Iterator[str]:
    """Yield partitions of one card that share a memory slice (MIG) or an id (vNPU)."""
    seen: list[Row] = []
    for row in rows:
        for other in seen:
            if other["card"] == row["card"] and (
                row["start"] < other["start"] + other["size"] and other["start"] < row["start"] + row["size"]
            ):
                yield f"node {node}: {_place(row)} overlaps {_place(other)} in the hardware"
        seen.append(row)


def unexplained(node: str, rows: Iterable[Row], partitions: Iterable[Json]) -> Iterator[str]:
    """Yield partitions in the hardware that have no Partition object and are not foreign."""
    own = [each["spec"] for each in partitions if each["spec"]["nodeName"] == node]
    placed = {(s["parent"], s["profile"], s["placement"]["start"]) for s in own if s.get("placement")}
    free = Counter((s["parent"], s["profile"]) for s in own if not s.get("placement"))
    for row in rows:
        if row["foreign"] or (row["card"], row["profile"], row["start"]) in placed:
            continue
        if free[row["card"], row["profile"]] > 0:
            free[row["card"], row["profile"]] -= 1
            continue
        yield f"node {node}: {_place(row)} is in the hardware, and nobody owns it"


def orphaned(partitions: Iterable[Json], claims: Iterable[Json], layouts: Iterable[Json]) -> Iterator[str]:
    """Yield Partition objects whose holder is gone, or no longer has that device."""
    owners = {each["metadata"]["uid"]: {use.device for use in uses(each)} for each in claims}
    plans = {each["metadata"]["uid"] for each in layouts}
    for each in partitions:
        spec = each["spec"]
        holder = spec.get("holder")
        if holder is None:
            continue
        about = f"partition {each['metadata']['name']} is held by {holder['kind']} {holder['name']}"
        if holder["uid"] in plans:
            continue
        if holder["uid"] not in owners:
            yield f"{about}, which is gone"
        elif (spec["driver"], spec["pool"], spec["device"]) not in owners[holder["uid"]]:
            yield f"{about}, which has not got that device"


def uncut(
    claims: Iterable[Json], partitions: Iterable[Json], hardware: Iterable[Row], devices: Devices
) -> Iterator[str]:
    """Yield devices of reserved claims that are partitions and do not exist in the hardware for that claim."""
    live = {row["uuid"] for row in hardware if row["complete"]}
    by_device = {
        (each["spec"]["driver"], each["spec"]["pool"], each["spec"]["device"]): each for each in partitions
    }
    for claim in claims:
        if not claim.get("status", {}).get("reservedFor"):
            continue
        for use in uses(claim):
            if use.device not in devices.parts:
                continue
            found = by_device.get(use.device, {})
            holder = found.get("spec", {}).get("holder") or {}
            if holder.get("kind") != "PartitionLayout" and holder.get("uid") != claim["metadata"]["uid"]:
                yield f"{use.user} uses {'/'.join(use.device)}, and its partition says holder {holder or None}"
            elif found.get("status", {}).get("uuid") not in live:
                yield f"{use.user} uses {'/'.join(use.device)}, which is not cut"


def _place(row: Row) -> str:
    return f"{row['card']} {row['profile']} at {row['start']}+{row['size']}"
