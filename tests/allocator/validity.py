"""An independent judge of allocations: plain dicts in, complaints out. It shares no code with the product.

It knows the rules of resource.k8s.io/v1 as upstream's documentation states them, not how a search finds anything.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.allocator.referencenode import DeviceKey, Raw, World, device_key, number

Choice = tuple[int, int, int, tuple[DeviceKey, ...]]
"""Claim, request, alternative, devices."""


class Tally:
    """What a choice has taken so far."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.owners: dict[DeviceKey, list[tuple[int, bool]]] = {}
        self.used = {device: dict(amounts) for device, amounts in world.used.items()}
        self.paying: dict[DeviceKey, None] = dict.fromkeys(
            device for device in world.consumers if device in world.exclusive or device in world.shared
        )

    def take(self, claim: int, want: Raw, device: DeviceKey) -> str | None:
        """Take one device; return what is wrong with that."""
        admin = bool(want.get("adminAccess"))
        if not admin:
            self.paying[device] = None
        return self._own(claim, device, admin=admin) or self._fill(want, device)

    def _own(self, claim: int, device: DeviceKey, *, admin: bool) -> str | None:
        world = self.world
        if world.shareable(device):
            return f"{device} is held as a whole" if device in world.exclusive and not admin else None
        others = self.owners.setdefault(device, [])
        if any(mine == claim or not (admin or theirs) for mine, theirs in others):
            return f"{device} is taken twice"
        if not admin and (device in world.exclusive or device in world.shared):
            return f"{device} is in use"
        if not admin and others:
            return f"{device} is looked at by an administrator of an earlier claim"
        others.append((claim, admin))
        return None

    def _fill(self, want: Raw, device: DeviceKey) -> str | None:
        world = self.world
        if not world.features["ConsumableCapacity"]:
            return None
        amounts = world.charge(want, device)
        if amounts is None:
            return f"{device} cannot serve the capacity"
        shared = world.shareable(device)
        target = self.used.setdefault(device, {}) if shared else dict(self.used.get(device, {}))
        for name, amount in amounts.items():
            target[name] = target.get(name, Fraction(0)) + amount
            if target[name] > number(world.devices[device][0]["capacity"][name]["value"]):
                return f"{device}: capacity {name} is exceeded"
        return None


def legal(world: World, choices: Sequence[Choice]) -> str | None:
    """Return what is wrong with a complete choice, None if nothing is."""
    tally = Tally(world)
    totals: Counter[int] = Counter()
    for claim, request, alternative, devices in choices:
        label, want = world.alternatives(claim, request)[alternative]
        totals[claim] += len(devices)
        wrong = _request(world, want, devices)
        if wrong:
            return f"{label}: {wrong}"
        for device in devices:
            wrong = tally.take(claim, want, device)
            if wrong:
                return wrong
    if any(total > 32 for total in totals.values()):
        return "more than 32 devices"
    return _counters(world, tally.paying, choices) or _constraints(world, choices)


def complaints(raw: Raw, results: Sequence[Raw]) -> list[str]:
    """Return what is wrong with AllocationResults for a world."""
    world = World(raw)
    if len(results) != len(world.claims):
        return [f"{len(results)} results for {len(world.claims)} claims"]
    choices, found = [], []
    for number_, (claim, result) in enumerate(zip(world.claims, results, strict=True)):
        rows = result["devices"].get("results") or []
        by_label: dict[str, list[Raw]] = {}
        for row in rows:
            by_label.setdefault(row["request"], []).append(row)
        for request in range(len(claim["spec"]["devices"].get("requests") or [])):
            ways = world.alternatives(number_, request)
            used = [index for index, (label, _) in enumerate(ways) if label in by_label]
            if len({ways[index][0] for index in used}) != 1:
                found.append(f"claim {number_}, request {request}: {len(used)} alternatives used")
                continue
            label, want = ways[used[0]]
            mine = by_label.pop(label)
            choices.append((number_, request, used[0], tuple(device_key(row) for row in mine)))
            found += [wrong for row in mine if (wrong := _row(world, want, row))]
        found += [f"unknown request {label}" for label in by_label]
        found += _selector(world, rows, result)
    if found:
        return found
    wrong = legal(world, choices)
    return [wrong] if wrong else []


def ranks(results: Sequence[Raw]) -> list[str]:
    """Return the labels of the requests that were served, in order: which alternatives were taken."""
    return [
        label
        for result in results
        for label in dict.fromkeys(
            row["request"]
            for row in sorted(result["devices"].get("results") or [], key=lambda row: str(row["request"]))
        )
    ]


def _row(world: World, want: Raw, row: Raw) -> str | None:
    device = device_key(row)
    if device not in world.devices:
        return f"{device} is not on the node"
    raw, _ = world.devices[device]
    if bool(row.get("adminAccess")) != bool(want.get("adminAccess")):
        return f"{device}: adminAccess"
    if (row.get("tolerations") or []) != (want.get("tolerations") or []):
        return f"{device}: tolerations"
    if bool(row.get("shareID")) != world.shareable(device):
        return f"{device}: shareID"
    expected = world.charge(want, device) if world.shareable(device) else {}
    if {name: number(value) for name, value in (row.get("consumedCapacity") or {}).items()} != expected:
        return f"{device}: consumedCapacity {row.get('consumedCapacity')}, expected {expected}"
    for field in ("bindingConditions", "bindingFailureConditions"):
        if (row.get(field) or []) != (raw.get(field) or []):
            return f"{device}: {field}"
    return None


def _selector(world: World, rows: Sequence[Raw], result: Raw) -> list[str]:
    local, wanted = False, set()
    for row in rows:
        raw, spec = world.devices.get(device_key(row), ({}, {}))
        place = raw if spec.get("perDeviceNodeSelection") else spec
        local = local or bool(place.get("nodeName")) or bool(raw.get("bindsToNode"))
        for term in (place.get("nodeSelector") or {}).get("nodeSelectorTerms") or []:
            wanted |= _facts(term)
    if local:
        wanted = {("matchFields", "metadata.name", "In", (world.name,))}
    terms = (result.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    given = set().union(*(_facts(term) for term in terms)) if terms else set()
    return [] if given == wanted and len(terms) <= 1 else [f"nodeSelector {given}, expected {wanted}"]


def _facts(term: Raw) -> set[tuple[str, str, str, tuple[str, ...]]]:
    return {
        (kind, row["key"], row["operator"], tuple(sorted(row.get("values") or ())))
        for kind in ("matchExpressions", "matchFields")
        for row in term.get(kind) or []
    }


def _request(world: World, want: Raw, devices: Sequence[DeviceKey]) -> str | None:
    if len(set(devices)) != len(devices):
        return "a device twice in one request"
    for device in devices:
        if not world.matches(want, device):
            return f"{device} does not match"
        if world.features["DeviceTaints"] and _tainted(world.devices[device][0], want):
            return f"{device} is tainted"
        if world.devices[device][0].get("consumesCounters") and not world.features["PartitionableDevices"]:
            return f"{device} consumes counters"
    if want.get("allocationMode") == "All":
        every = {device for device in world.devices if world.matches(want, device)}
        if world.features["ConsumableCapacity"]:
            every = {device for device in every if _could(world, want, device)}
        return None if every == set(devices) and every else "not all devices"
    return None if len(devices) == (want.get("count") or 1) else f"{len(devices)} devices"


def _could(world: World, want: Raw, device: DeviceKey) -> bool:
    amounts = world.charge(want, device)
    capacity = world.devices[device][0].get("capacity") or {}
    return amounts is not None and all(
        amount <= number(capacity[name]["value"]) for name, amount in amounts.items()
    )


def _tainted(raw: Raw, want: Raw) -> bool:
    def tolerated(taint: Raw) -> bool:
        return any(
            (not one.get("effect") or one["effect"] == taint["effect"])
            and (not one.get("key") or one["key"] == taint["key"])
            and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
            for one in want.get("tolerations") or []
        )

    return any(
        taint["effect"] in {"NoSchedule", "NoExecute"} and not tolerated(taint)
        for taint in raw.get("taints") or []
    )


def _counters(
    world: World, paying: Sequence[DeviceKey] | dict[DeviceKey, None], choices: Sequence[Choice]
) -> str | None:
    if not world.features["PartitionableDevices"]:
        return None
    left = dict(world.counters)
    touched = set()
    chosen = {device for choice in choices for device in choice[3]}
    for device in paying:
        raw = world.consumers.get(device) or world.devices[device][0]
        for need in raw.get("consumesCounters") or []:
            for name, value in need["counters"].items():
                key = (device[0], device[1], need["counterSet"], name)
                left[key] -= number(value["value"])
                # A device that was in use before pays nothing now, whatever others over-committed.
                if device in chosen and device not in world.shared and device not in world.exclusive:
                    touched.add(key)
    short = [key for key in touched if left[key] < 0]
    return f"counters {short} exceeded" if short else None


def _constraints(world: World, choices: Sequence[Choice]) -> str | None:
    for number_, claim in enumerate(world.claims):
        for rule in claim["spec"]["devices"].get("constraints") or []:
            name = rule.get("matchAttribute") or rule.get("distinctAttribute")
            values: list[set[tuple[str, Any]]] = []
            for owner, request, alternative, devices in choices:
                label, _ = world.alternatives(number_, request)[alternative] if owner == number_ else ("", {})
                wanted = rule.get("requests") or []
                if owner != number_ or (wanted and label not in wanted and label.split("/")[0] not in wanted):
                    continue
                values += [_values(world, device, str(name)) for device in devices]
            if any(not value for value in values):
                return f"a device lacks {name}"
            if "matchAttribute" in rule and values and not set.intersection(*values):
                return f"{name} differs"
            if "distinctAttribute" in rule and sum(map(len, values)) != len(set().union(*values)):
                return f"{name} is not distinct"
    return None


def _values(world: World, device: DeviceKey, name: str) -> set[tuple[str, Any]]:
    attributes = world.devices[device][0].get("attributes") or {}
    domain, _, plain = name.partition("/")
    raw = attributes.get(name) or (attributes.get(plain) if domain == device[0] else None) or {}
    found = set()
    for kind, value in raw.items():
        if isinstance(value, list):
            found |= (
                {(kind.removesuffix("s"), entry) for entry in value}
                if world.features["ListTypeAttributes"]
                else set()
            )
        else:
            found.add((kind, value))
    return found
