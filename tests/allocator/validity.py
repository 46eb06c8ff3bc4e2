"""Rules of resource.k8s.io/v1 for allocations: plain JSON in, violations out.

It shares no code with the product. It knows the rules of upstream's documentation, and nothing of the search.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tests.allocator.referencenode import DeviceKey, Raw, ReferenceNode, device_key, quantity

Choice = tuple[int, int, int, tuple[DeviceKey, ...]]
"""Claim, request, alternative, devices."""


class Usage:
    """Devices and capacities that a choice has taken so far."""

    def __init__(self, node: ReferenceNode) -> None:
        self.node = node
        self.owners: dict[DeviceKey, list[tuple[int, bool]]] = {}
        self.used = {device: dict(amounts) for device, amounts in node.used.items()}
        self.paying: dict[DeviceKey, None] = dict.fromkeys(
            device for device in node.consumers if device in node.exclusive or device in node.shared
        )

    def take(self, claim: int, exact: Raw, device: DeviceKey) -> str | None:
        """Take one device; return the violation, None if there is none."""
        admin = bool(exact.get("adminAccess"))
        if not admin:
            self.paying[device] = None
        return self._own(claim, device, admin=admin) or self._fill(exact, device)

    def _own(self, claim: int, device: DeviceKey, *, admin: bool) -> str | None:
        node = self.node
        if node.shareable(device):
            return f"{device} is held as a whole" if device in node.exclusive and not admin else None
        others = self.owners.setdefault(device, [])
        if any(mine == claim or not (admin or theirs) for mine, theirs in others):
            return f"{device} is taken twice"
        if not admin and (device in node.exclusive or device in node.shared):
            return f"{device} is in use"
        if not admin and others:
            return f"{device} has adminAccess by an earlier claim"
        others.append((claim, admin))
        return None

    def _fill(self, exact: Raw, device: DeviceKey) -> str | None:
        node = self.node
        if not node.features["ConsumableCapacity"]:
            return None
        amounts = node.charge(exact, device)
        if amounts is None:
            return f"{device} cannot serve the capacity"
        shared = node.shareable(device)
        target = self.used.setdefault(device, {}) if shared else dict(self.used.get(device, {}))
        for name, amount in amounts.items():
            target[name] = target.get(name, Fraction(0)) + amount
            if target[name] > quantity(node.devices[device][0]["capacity"][name]["value"]):
                return f"{device}: capacity {name} is exceeded"
        return None


def violation(node: ReferenceNode, choices: Sequence[Choice]) -> str | None:
    """Return the first violation of a complete choice, None if it is legal."""
    usage = Usage(node)
    totals: Counter[int] = Counter()
    for claim, request, alternative, devices in choices:
        label, exact = node.alternatives(claim, request)[alternative]
        totals[claim] += len(devices)
        wrong = _request_violation(node, exact, devices)
        if wrong:
            return f"{label}: {wrong}"
        for device in devices:
            wrong = usage.take(claim, exact, device)
            if wrong:
                return wrong
    if any(total > 32 for total in totals.values()):
        return "more than 32 devices"
    return _counter_violation(node, usage.paying, choices) or _constraint_violation(node, choices)


def violations(raw: Raw, results: Sequence[Raw]) -> list[str]:
    """Return the violations of AllocationResults for a world."""
    node = ReferenceNode(raw)
    if len(results) != len(node.claims):
        return [f"{len(results)} results for {len(node.claims)} claims"]
    choices, found = [], []
    for number, (claim, result) in enumerate(zip(node.claims, results, strict=True)):
        rows = result["devices"].get("results") or []
        by_label: dict[str, list[Raw]] = {}
        for row in rows:
            by_label.setdefault(row["request"], []).append(row)
        for request in range(len(claim["spec"]["devices"].get("requests") or [])):
            alternatives = node.alternatives(number, request)
            used = [index for index, (label, _) in enumerate(alternatives) if label in by_label]
            if len({alternatives[index][0] for index in used}) != 1:
                found.append(f"claim {number}, request {request}: {len(used)} alternatives used")
                continue
            label, exact = alternatives[used[0]]
            mine = by_label.pop(label)
            choices.append((number, request, used[0], tuple(device_key(row) for row in mine)))
            found += [wrong for row in mine if (wrong := _result_violation(node, exact, row))]
        found += [f"unknown request {label}" for label in by_label]
        found += _selector_violations(node, rows, result)
    if found:
        return found
    wrong = violation(node, choices)
    return [wrong] if wrong else []


def served_requests(results: Sequence[Raw]) -> list[str]:
    """Return the labels of the served requests, in order; a label names the alternative that was taken."""
    return [
        label
        for result in results
        for label in dict.fromkeys(
            row["request"]
            for row in sorted(result["devices"].get("results") or [], key=lambda row: str(row["request"]))
        )
    ]


def _result_violation(node: ReferenceNode, exact: Raw, row: Raw) -> str | None:
    device = device_key(row)
    if device not in node.devices:
        return f"{device} is not on the node"
    raw, _ = node.devices[device]
    if bool(row.get("adminAccess")) != bool(exact.get("adminAccess")):
        return f"{device}: adminAccess"
    if (row.get("tolerations") or []) != (exact.get("tolerations") or []):
        return f"{device}: tolerations"
    if bool(row.get("shareID")) != node.shareable(device):
        return f"{device}: shareID"
    expected = node.charge(exact, device) if node.shareable(device) else {}
    if {name: quantity(value) for name, value in (row.get("consumedCapacity") or {}).items()} != expected:
        return f"{device}: consumedCapacity {row.get('consumedCapacity')}, expected {expected}"
    for field in ("bindingConditions", "bindingFailureConditions"):
        if (row.get(field) or []) != (raw.get(field) or []):
            return f"{device}: {field}"
    return None


def _selector_violations(node: ReferenceNode, rows: Sequence[Raw], result: Raw) -> list[str]:
    local, wanted = False, set()
    for row in rows:
        raw, spec = node.devices.get(device_key(row), ({}, {}))
        availability = raw if spec.get("perDeviceNodeSelection") else spec
        local = local or bool(availability.get("nodeName")) or bool(raw.get("bindsToNode"))
        for term in (availability.get("nodeSelector") or {}).get("nodeSelectorTerms") or []:
            wanted |= _requirements(term)
    if local:
        wanted = {("matchFields", "metadata.name", "In", (node.name,))}
    terms = (result.get("nodeSelector") or {}).get("nodeSelectorTerms") or []
    given = set().union(*(_requirements(term) for term in terms)) if terms else set()
    return [] if given == wanted and len(terms) <= 1 else [f"nodeSelector {given}, expected {wanted}"]


def _requirements(term: Raw) -> set[tuple[str, str, str, tuple[str, ...]]]:
    return {
        (kind, row["key"], row["operator"], tuple(sorted(row.get("values") or ())))
        for kind in ("matchExpressions", "matchFields")
        for row in term.get(kind) or []
    }


def _request_violation(node: ReferenceNode, exact: Raw, devices: Sequence[DeviceKey]) -> str | None:
    if len(set(devices)) != len(devices):
        return "a device twice in one request"
    for device in devices:
        if not node.matches(exact, device):
            return f"{device} does not match"
        if node.features["DeviceTaints"] and _tainted(node.devices[device][0], exact):
            return f"{device} is tainted"
        if node.devices[device][0].get("consumesCounters") and not node.features["PartitionableDevices"]:
            return f"{device} consumes counters"
    if exact.get("allocationMode") == "All":
        every = {device for device in node.devices if node.matches(exact, device)}
        if node.features["ConsumableCapacity"]:
            every = {device for device in every if _has_capacity(node, exact, device)}
        return None if every == set(devices) and every else "not all devices"
    return None if len(devices) == (exact.get("count") or 1) else f"{len(devices)} devices"


def _has_capacity(node: ReferenceNode, exact: Raw, device: DeviceKey) -> bool:
    amounts = node.charge(exact, device)
    capacity = node.devices[device][0].get("capacity") or {}
    return amounts is not None and all(
        amount <= quantity(capacity[name]["value"]) for name, amount in amounts.items()
    )


def _tainted(raw: Raw, exact: Raw) -> bool:
    def tolerated(taint: Raw) -> bool:
        return any(
            (not one.get("effect") or one["effect"] == taint["effect"])
            and (not one.get("key") or one["key"] == taint["key"])
            and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
            for one in exact.get("tolerations") or []
        )

    return any(
        taint["effect"] in {"NoSchedule", "NoExecute"} and not tolerated(taint)
        for taint in raw.get("taints") or []
    )


def _counter_violation(
    node: ReferenceNode, paying: Sequence[DeviceKey] | dict[DeviceKey, None], choices: Sequence[Choice]
) -> str | None:
    if not node.features["PartitionableDevices"]:
        return None
    left = dict(node.counters)
    touched = set()
    common: dict[tuple[str, str, str], set[str]] = {}
    chosen = {device for choice in choices for device in choice[3]}
    for device in paying:
        raw = node.consumers.get(device) or node.devices[device][0]
        for need in raw.get("consumesCounters") or []:
            place = (device[0], device[1], need["counterSet"])
            # A device without groups is in use together with such devices only.
            own = set(need.get("compatibilityGroups") or [""])
            common[place] = common.get(place, own) & own
            for name, value in need["counters"].items():
                key = (device[0], device[1], need["counterSet"], name)
                left[key] -= quantity(value["value"])
                # A device already in use consumes nothing now, even if its counters are overcommitted.
                if device in chosen and device not in node.shared and device not in node.exclusive:
                    touched.add(key)
    apart = {key[:3] for key in touched if not common[key[:3]]}
    if apart:
        return f"devices without a common group on {apart}"
    short = [key for key in touched if left[key] < 0]
    return f"counters {short} exceeded" if short else None


def _constraint_violation(node: ReferenceNode, choices: Sequence[Choice]) -> str | None:
    for number, claim in enumerate(node.claims):
        for constraint in claim["spec"]["devices"].get("constraints") or []:
            name = constraint.get("matchAttribute") or constraint.get("distinctAttribute")
            values: list[set[tuple[str, Any]]] = []
            for owner, request, alternative, devices in choices:
                label, _ = node.alternatives(number, request)[alternative] if owner == number else ("", {})
                wanted = constraint.get("requests") or []
                if owner != number or (wanted and label not in wanted and label.split("/")[0] not in wanted):
                    continue
                values += [_values(node, device, str(name)) for device in devices]
            if any(not value for value in values):
                return f"a device lacks {name}"
            if "matchAttribute" in constraint and values and not set.intersection(*values):
                return f"{name} differs"
            if "distinctAttribute" in constraint and sum(map(len, values)) != len(set().union(*values)):
                return f"{name} is not distinct"
    return None


def _values(node: ReferenceNode, device: DeviceKey, name: str) -> set[tuple[str, Any]]:
    attributes = node.devices[device][0].get("attributes") or {}
    domain, _, plain = name.partition("/")
    raw = attributes.get(name) or (attributes.get(plain) if domain == device[0] else None) or {}
    found = set()
    for kind, value in raw.items():
        if isinstance(value, list):
            found |= (
                {(kind.removesuffix("s"), entry) for entry in value}
                if node.features["ListTypeAttributes"]
                else set()
            )
        else:
            found.add((kind, value))
    return found
