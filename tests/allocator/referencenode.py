"""A second reading of one node of a world: plain JSON in, its usable devices, counters and capacities out.

It shares no code with the product. Its rules are those of upstream's documentation.
"""

import re
from collections import Counter
from fractions import Fraction
from typing import Any

Raw = dict[str, Any]
DeviceKey = tuple[str, str, str]

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


def quantity(text: object) -> Fraction:
    """Return the value of a quantity."""
    found = re.fullmatch(r"([+-]?[0-9.]+)(?:[eE]([0-9]+))?([a-zA-Z]*)", str(text))
    if found is None:
        raise ValueError(text)
    return Fraction(found[1]) * 10 ** int(found[2] or 0) * Fraction(_UNITS[found[3]])


class ReferenceNode:
    """The devices, counters and capacities of a world's node, and the claims of the world."""

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
        self.exclusive = {device_key(row) for row in raw["allocated"]["devices"]}
        self.shared = {device_key(row) for row in raw["allocated"]["shared"]}
        self.used: dict[DeviceKey, dict[str, Fraction]] = {}
        for row in raw["allocated"]["capacity"]:
            device = device_key(row)
            consumed = {name: quantity(value) for name, value in row["consumed"].items()}
            if self._is_of(device, consumed):
                self.shared.add(device)
                self.used[device] = consumed
            else:
                self.exclusive.add(device)

    def _is_of(self, device: DeviceKey, consumed: dict[str, Fraction]) -> bool:
        """Return whether shares consume of a device what it has by its driver's names of now; of one that is not here nobody gets any."""
        if device not in self.devices:
            return True
        capacity = self.devices[device][0].get("capacity") or {}
        free = {
            name
            for name, entry in capacity.items()
            if (entry.get("requestPolicy") or {}).get("validValues") == ["0"]
        }
        return {name for name, amount in consumed.items() if amount} <= {*capacity} <= {*consumed} | free

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
                    pool_counters[*key, entry["name"], name] = quantity(value["value"])
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
        """Return the newest slices for the node, and all slices of that generation; None if the pool is unusable."""
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
            # A newer generation exists on other nodes: the older one counts only if it is complete on this node.
            whole = [s for s in here if s["pool"].get("generation", 0) == generation]
            if len(whole) != whole[0]["pool"]["resourceSliceCount"]:
                return None
        same = [s for s in known if s["pool"].get("generation", 0) == generation]
        here = [s for s in here if s["pool"].get("generation", 0) == generation]
        count = here[0]["pool"]["resourceSliceCount"]
        if count not in {len(here), len(same)}:
            self.broken.add(key)
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
        """Return (label, fields) of every alternative of a request."""
        row = self.claims[claim]["spec"]["devices"]["requests"][request]
        if "exactly" in row:
            return [(row["name"], row["exactly"])]
        return [(f"{row['name']}/{sub['name']}", sub) for sub in row["firstAvailable"]]

    def matches(self, exact: Raw, device: DeviceKey) -> bool:
        """Return whether a device matches the selectors of class and request."""
        raw, _ = self.devices[device]
        if raw.get("bindingConditions") and not self.features["DeviceBindingAndStatus"]:
            return False
        texts = [
            row["cel"]["expression"]
            for row in self.classes[exact["deviceClassName"]]["spec"].get("selectors") or []
        ]
        texts += [row["cel"]["expression"] for row in exact.get("selectors") or []]
        return all(accepts(text, device[0], raw) for text in texts)

    def charge(self, exact: Raw, device: DeviceKey) -> dict[str, Fraction] | None:
        """Return the capacities that a request consumes of a device; None if the device cannot serve it."""
        raw, _ = self.devices[device]
        wanted = {n: quantity(v) for n, v in ((exact.get("capacity") or {}).get("requests") or {}).items()}
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
        default = quantity(policy["default"]) if "default" in policy else None
        bounds = policy.get("validRange") or {}
        values = sorted(quantity(value) for value in policy.get("validValues") or [])
        fine = self.features["FractionalCapacityRange"]

        def whole(value: Fraction) -> Fraction:
            return value if fine else Fraction(-(-value.numerator // value.denominator))

        if wanted is None:
            amount = default if default is not None else quantity(entry["value"])
        elif bounds:
            low = quantity(bounds["min"])
            amount = max(low, wanted)
            if "step" in bounds and wanted >= low:
                step = whole(quantity(bounds["step"]))
                amount = whole(low) + -(-(whole(wanted) - whole(low)) // step) * step
        else:
            amount = next((value for value in values if value >= wanted), wanted)
        if amount == default:
            return amount
        if "max" in bounds and amount > quantity(bounds["max"]):
            return None
        if values and amount not in values:
            return None
        return amount

    def shareable(self, device: DeviceKey) -> bool:
        """Return whether several allocations may share a device."""
        return bool(self.devices[device][0].get("allowMultipleAllocations")) and bool(
            self.features["ConsumableCapacity"]
        )


def accepts(text: str, driver: str, raw: Raw) -> bool:
    """Evaluate the forms of selectors that the cases use; raises ValueError for any other."""
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
        return entry is not None and quantity(entry["value"]) >= quantity(found[3])
    raise ValueError(term)


def _requirement(row: Raw, value: str | None) -> bool:
    values = row.get("values") or []
    return {
        "In": value is not None and value in values,
        "NotIn": value is None or value not in values,
        "Exists": value is not None,
        "DoesNotExist": value is None,
    }[row["operator"]]


def device_key(row: Raw) -> DeviceKey:
    return row["driver"], row["pool"], row["device"]
