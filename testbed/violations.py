"""Rules that must hold between API objects and hardware, checked without the product's code.

In: API objects, the state of the simulated hardware. Out: violations in words. Quantities, counters and placements are read and
summed here again, so that an error of the product is not repeated.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
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
    """A device that one claim or container has exclusively."""

    user: str
    """A claim or a container, in words."""
    device: DeviceKey


@dataclass(slots=True)
class Devices:
    """Every device and counter set that slices ever published, also those that are gone."""

    nodes: dict[DeviceKey, str] = field(default_factory=dict)
    takes: dict[DeviceKey, dict[DeviceKey, dict[str, Fraction]]] = field(default_factory=dict)
    """By device, then counter set, then counter."""
    whole: dict[DeviceKey, dict[str, Fraction]] = field(default_factory=dict)
    """By counter set: what the largest device, the whole card, takes."""
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
            self.takes[key] = {}
            for each in device.get("consumesCounters") or ():
                counter_set = (driver, pool, each["counterSet"])
                taken = self.takes[key][counter_set] = _amounts(each)
                most = self.whole.setdefault(counter_set, {})
                most.update(
                    {name: max(amount, most.get(name, Fraction(0))) for name, amount in taken.items()}
                )


def _amounts(raw: Json) -> dict[str, Fraction]:
    return {name: number(counter["value"]) for name, counter in raw["counters"].items()}


def claim_title(claim: Json) -> str:
    """Return namespace, name and UID of a claim in words."""
    metadata = claim["metadata"]
    return f"{metadata['namespace']}/{metadata['name']} ({metadata['uid']})"


def uses(claim: Json) -> Iterator[Use]:
    """Yield the devices that a claim has exclusively: no admin access, no share."""
    for alone, device in _results(claim):
        if alone:
            yield Use(claim_title(claim), device)


def shared_devices(claim: Json) -> Iterator[DeviceKey]:
    """Yield the devices that a claim shares with others: by admin access, or a share."""
    return (device for alone, device in _results(claim) if not alone)


def _results(claim: Json) -> Iterator[tuple[bool, DeviceKey]]:
    allocation = claim.get("status", {}).get("allocation") or {}
    for result in allocation.get("devices", {}).get("results") or ():
        alone = not result.get("adminAccess") and not result.get("shareID")
        yield alone, (result["driver"], result["pool"], result["device"])


def used_twice(live: Iterable[Use]) -> Iterator[str]:
    """Yield every device that two claims or containers have at one time."""
    users: dict[DeviceKey, set[str]] = defaultdict(set)
    for use in live:
        users[use.device].add(use.user)
    for device, several in users.items():
        if len(several) > 1:
            yield f"device {'/'.join(device)} is used twice: by {' and '.join(sorted(several))}"


def overdrawn(
    live: Iterable[Use], devices: Devices, limits: Mapping[DeviceKey, Mapping[str, Fraction]]
) -> Iterator[str]:
    """Yield every counter of which more is used than `limits` allows; sets without a limit are skipped."""
    sums: dict[DeviceKey, dict[str, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
    takers: dict[DeviceKey, set[str]] = defaultdict(set)
    for use in set(live):
        for counter_set, taken in devices.takes.get(use.device, {}).items():
            takers[counter_set].add(f"{use.device[2]} by {use.user}")
            for name, amount in taken.items():
                sums[counter_set][name] += amount
    for counter_set, used in sums.items():
        limit = limits.get(counter_set)
        if limit is None:
            continue
        sizes = [(name, amount, limit.get(name, Fraction(0))) for name, amount in sorted(used.items())]
        over = [
            f"{name} {float(amount):g} of {float(size):g}" for name, amount, size in sizes if amount > size
        ]
        if over:
            yield (
                f"{'/'.join(counter_set)} is used beyond its size ({', '.join(over)})"
                f" by {', '.join(sorted(takers[counter_set]))}"
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
            places = {devices.nodes.get(device, node) for _, device in _results(claim)} if claim else set()
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
