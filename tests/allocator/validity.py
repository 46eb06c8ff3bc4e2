"""An independent judge of allocations: plain dicts in, complaints out. It shares no code with the product.

It knows the rules of resource.k8s.io/v1 as upstream's documentation states them, not how a search finds anything.
"""

import re
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

Raw = dict[str, Any]
DeviceKey = tuple[str, str, str]
Choice = tuple[int, int, int, tuple[DeviceKey, ...]]
"""Claim, request, alternative, devices."""

_UNITS = {
    "": 1,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
    "T": 10**12,
    "P": 10**15,
    "E": 10**18,
}
_UNITS |= {f"{letter}i": 1024**power for power, letter in enumerate("KMGTPE", 1)}


def number(text: object) -> Fraction:
    """Read a quantity."""
    found = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([0-9]+))?([a-zA-Z]*)", str(text))
    if found is None:
        raise ValueError(text)
    return Fraction(found[1]) * 10 ** int(found[2] or 0) * Fraction(_UNITS[found[3]])


class World:
    """One node's part of a world, gathered anew."""

    def __init__(self, raw: Raw) -> None:
        self.raw = raw
        self.features: Raw = raw["features"]
        self.node: Raw = raw["node"]
        self.name: str = self.node["metadata"]["name"]
        self.classes = {row["metadata"]["name"]: row for row in raw["classes"]}
        self.claims: list[Raw] = raw["claims"]
        self.devices: dict[DeviceKey, tuple[Raw, Raw]] = {}
        self.counters: dict[tuple[str, str, str, str], Fraction] = {}
        self.consumers: dict[DeviceKey, Raw] = {}
        self.broken: set[tuple[str, str]] = set()
        pools: dict[tuple[str, str], list[Raw]] = {}
        for row in raw["slices"]:
            pools.setdefault((row["spec"]["driver"], row["spec"]["pool"]["name"]), []).append(row["spec"])
        for key, slices in pools.items():
            self._gather(key, slices)
        self.exclusive = {_key(row) for row in raw["allocated"]["devices"]}
        self.shared = {_key(row) for row in raw["allocated"]["shared"]}
        self.used: dict[DeviceKey, dict[str, Fraction]] = {}
        for row in raw["allocated"]["capacity"]:
            self.shared.add(_key(row))
            self.used[_key(row)] = {name: number(value) for name, value in row["consumed"].items()}

    def _gather(self, key: tuple[str, str], slices: list[Raw]) -> None:
        found = self._current(key, slices)
        if found is None:
            return
        here, same = found
        pool_counters: dict[tuple[str, str, str, str], Fraction] = {}
        names = Counter(entry["name"] for s in same for entry in s.get("sharedCounters") or [])
        for s in same:
            for entry in s.get("sharedCounters") or []:
                for name, value in (entry.get("counters") or {}).items():
                    pool_counters[*key, entry["name"], name] = number(value["value"])
        visible = Counter(d["name"] for s in here for d in s.get("devices") or [])
        unknown = self.features["PartitionableDevices"] and any(
            (*key, need["counterSet"], name) not in pool_counters
            for s in same
            for d in s.get("devices") or []
            for need in d.get("consumesCounters") or []
            for name in need["counters"]
        )
        if max(visible.values(), default=0) > 1 or max(names.values(), default=0) > 1 or unknown:
            self.broken.add(key)
            return
        self.counters |= pool_counters
        for s in same:
            for d in s.get("devices") or []:
                self.consumers[*key, d["name"]] = d
        for s in here:
            for d in s.get("devices") or []:
                if not s.get("perDeviceNodeSelection") or self._covers(d):
                    self.devices[*key, d["name"]] = (d, s)

    def _current(self, key: tuple[str, str], slices: list[Raw]) -> tuple[list[Raw], list[Raw]] | None:
        """Return the newest slices for the node, and all of the same generation; None: nothing to use."""
        known = [
            s
            for s in slices
            if self.features["PartitionableDevices"]
            or not (s.get("perDeviceNodeSelection") or s.get("sharedCounters"))
        ]
        here = [s for s in known if self._relevant(s)]
        if not here:
            return None
        generation = max(s["pool"].get("generation", 0) for s in here)
        if any(s["pool"].get("generation", 0) > generation for s in known):
            # Something newer elsewhere: only a pool that is whole as it stands counts.
            whole = [s for s in here if s["pool"].get("generation", 0) == generation]
            if len(whole) != whole[0]["pool"]["resourceSliceCount"]:
                return None
        same = [s for s in known if s["pool"].get("generation", 0) == generation]
        here = [s for s in here if s["pool"].get("generation", 0) == generation]
        count = here[0]["pool"]["resourceSliceCount"]
        if count not in {len(here), len(same)}:
            self.broken.add(key)
            return None
        if any(
            need.get("compatibilityGroups")
            for s in same
            for d in s.get("devices") or []
            for need in d.get("consumesCounters") or []
        ):
            return None
        return here, same

    def _relevant(self, spec: Raw) -> bool:
        if spec.get("perDeviceNodeSelection"):
            return any(self._covers(device) for device in spec.get("devices") or [])
        return self._covers(spec)

    def _covers(self, of: Raw) -> bool:
        if of.get("nodeName"):
            return bool(of["nodeName"] == self.name)
        if of.get("allNodes"):
            return True
        terms = (of.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
        return any(self._term(term) for term in terms)

    def _term(self, term: Raw) -> bool:
        labels = self.node["metadata"].get("labels") or {}
        rows = [(row, labels.get(row["key"])) for row in term.get("matchExpressions") or []]
        rows += [(row, self.name) for row in term.get("matchFields") or []]
        return bool(rows) and all(_requirement(row, value) for row, value in rows)

    def alternatives(self, claim: int, request: int) -> list[tuple[str, Raw]]:
        """Return (label, request) for every way to satisfy a request."""
        row = self.claims[claim]["spec"]["devices"]["requests"][request]
        if "exactly" in row:
            return [(row["name"], row["exactly"])]
        return [(f"{row['name']}/{sub['name']}", sub) for sub in row["firstAvailable"]]

    def matches(self, want: Raw, device: DeviceKey) -> bool:
        """Say whether a device passes class and request."""
        raw, _ = self.devices[device]
        if raw.get("bindingConditions") and not self.features["DeviceBindingAndStatus"]:
            return False
        texts = [
            row["cel"]["expression"]
            for row in self.classes[want["deviceClassName"]]["spec"].get("selectors") or []
        ]
        texts += [row["cel"]["expression"] for row in want.get("selectors") or []]
        return all(accepts(text, device[0], raw) for text in texts)

    def charge(self, want: Raw, device: DeviceKey) -> dict[str, Fraction] | None:
        """Return what a request takes of a device's capacities, None if it cannot serve."""
        raw, _ = self.devices[device]
        wanted = {n: number(v) for n, v in ((want.get("capacity") or {}).get("requests") or {}).items()}
        capacity = raw.get("capacity") or {}
        if any(name not in capacity for name in wanted):
            return None
        taken: dict[str, Fraction] = {}
        for name, entry in capacity.items():
            amount = self._amount(wanted.get(name), entry)
            if amount is None:
                return None
            taken[name] = amount
        return taken

    def _amount(self, wanted: Fraction | None, entry: Raw) -> Fraction | None:
        policy = entry.get("requestPolicy") or {}
        default = number(policy["default"]) if "default" in policy else None
        bounds = policy.get("validRange") or {}
        values = sorted(number(value) for value in policy.get("validValues") or [])
        fine = self.features["FractionalCapacityRange"]

        def whole(value: Fraction) -> Fraction:
            return value if fine else Fraction(-(-value.numerator // value.denominator))

        if wanted is None:
            amount = default if default is not None else number(entry["value"])
        elif bounds:
            low = number(bounds["min"])
            amount = max(low, wanted)
            if "step" in bounds and wanted >= low:
                step = whole(number(bounds["step"]))
                amount = whole(low) + -(-(whole(wanted) - whole(low)) // step) * step
        else:
            amount = next((value for value in values if value >= wanted), wanted)
        if amount == default:
            return amount
        if "max" in bounds and amount > number(bounds["max"]):
            return None
        if values and amount not in values:
            return None
        return amount

    def shareable(self, device: DeviceKey) -> bool:
        """Say whether a device may have several users."""
        return bool(self.devices[device][0].get("allowMultipleAllocations")) and bool(
            self.features["ConsumableCapacity"]
        )


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
            choices.append((number_, request, used[0], tuple(_key(row) for row in mine)))
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
    device = _key(row)
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
        raw, spec = world.devices.get(_key(row), ({}, {}))
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


def accepts(text: str, driver: str, raw: Raw) -> bool:
    """Evaluate the few forms of selectors that the cases use; raises ValueError for any other."""
    if "||" in text:
        return any(accepts(part, driver, raw) for part in text.split("||"))
    if "&&" in text:
        return all(accepts(part, driver, raw) for part in text.split("&&"))
    term = text.strip()
    if found := re.fullmatch(r'device\.driver == "([^"]*)"', term):
        return driver == found[1]
    if found := re.fullmatch(r"device\.allowMultipleAllocations == (true|false)", term):
        return bool(raw.get("allowMultipleAllocations")) == (found[1] == "true")
    if found := re.fullmatch(r'device\.attributes\["([^"]*)"\]\.(\w+) == "([^"]*)"', term):
        return (raw.get("attributes") or {}).get(found[2], {}).get("string") == found[3]
    if found := re.fullmatch(r'device\.attributes\["([^"]*)"\]\.(\w+)', term):
        return bool((raw.get("attributes") or {})[found[2]]["bool"])
    if found := re.fullmatch(
        r'device\.capacity\["[^"]*"\](?:\.(\w+)|\["([^"]*)"\])\.compareTo\(quantity\("(\w+)"\)\) >= 0', term
    ):
        entry = (raw.get("capacity") or {}).get(found[1] or found[2])
        return entry is not None and number(entry["value"]) >= number(found[3])
    raise ValueError(term)


def _requirement(row: Raw, value: str | None) -> bool:
    values = row.get("values") or []
    return {
        "In": value is not None and value in values,
        "NotIn": value is None or value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[row["operator"]]


def _key(row: Raw) -> DeviceKey:
    return row["driver"], row["pool"], row["device"]
