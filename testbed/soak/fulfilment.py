"""Whether claims have what they ask for, checked without the product's code.

In: slices, claims as `specs.py` writes them. Out: what is wrong, in words. Selectors are read, not evaluated: one of another form raises KeyError.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from testbed import violations
from testbed.api import Json
from testbed.violations import DeviceKey

_TYPES: Final = {
    "gpu.apportion.dev": "gpu", "mig.apportion.dev": "mig", "npu.apportion.dev": "npu", "vnpu.apportion.dev": "vnpu",
    "rdma.apportion.dev": "nic",
}  # fmt: skip
"""What the attribute `type` of devices of each class says."""
_EQUAL: Final = re.compile(r'device\.attributes\["[a-z.]+"\]\.(\w+) == "([^"]+)"')
_SHARED: Final = {"device.allowMultipleAllocations": True, "!device.allowMultipleAllocations": False}


class Fulfilment:
    """Knows the devices that slices have ever published."""

    def __init__(self) -> None:
        self._attributes: dict[DeviceKey, Json] = {}
        self._shared: dict[DeviceKey, set[bool]] = defaultdict(set)
        """Whether devices were ever shared, and whether they ever were not: a claim keeps its device when that changes."""

    def learn(self, piece: Json) -> None:
        """Read one ResourceSlice."""
        spec = piece["spec"]
        for device in spec.get("devices") or ():
            key = spec["driver"], spec["pool"]["name"], device["name"]
            self._attributes[key] = device.get("attributes", {})
            self._shared[key].add(device.get("allowMultipleAllocations", False))

    def unfulfilled(self, claim: Json) -> Iterator[str]:
        """Yield what a claim has that it does not ask for, and what it lacks, if it has devices."""
        had: dict[str, list[DeviceKey]] = defaultdict(list)
        for row in (claim.get("status", {}).get("allocation") or {}).get("devices", {}).get("results") or ():
            had[row["request"]].append((row["driver"], row["pool"], row["device"]))
        if not had:
            return
        about, spec = violations.claim_title(claim), claim["spec"]["devices"]
        asked = dict(_chosen(request, had) for request in spec["requests"])
        if had.keys() != asked.keys():
            yield f"{about} has devices for {sorted(had)}, and asks for {sorted(asked)}"
            return
        for name, request in asked.items():
            yield from (f"{about}: {name}: {text}" for text in self._lacks(request, had[name]))
        for constraint in spec.get("constraints") or ():
            names = constraint.get("requests") or [*had]
            devices = [key for name, keys in had.items() if name.partition("/")[0] in names for key in keys]
            yield from (f"{about}: {text}" for text in self.contradicts(constraint, devices))

    def _lacks(self, request: Json, devices: Sequence[DeviceKey]) -> Iterator[str]:
        if request.get("allocationMode") == "All":
            pools = {pool for _, pool, _ in devices}
            due = sum(key[1] in pools and self.wrong(key, request) is None for key in self._attributes)
        else:
            due = request.get("count", 1)
        if len(devices) != due:
            yield f"{len(devices)} devices instead of {due}"
        for key in devices:
            if (wrong := self.wrong(key, request)) is not None:
                yield f"{'/'.join(key)} {wrong}"

    def wrong(self, key: DeviceKey, request: Json) -> str | None:
        """Return why a device is none that is asked for."""
        device_class = request["deviceClassName"]
        if self._attribute(key, "type") != _TYPES[device_class]:
            return f"is none of class {device_class}"
        for selector in request.get("selectors") or ():
            expression = selector["cel"]["expression"]
            if (equal := _EQUAL.fullmatch(expression)) is not None:
                fits = self._attribute(key, equal[1]) == equal[2]
            else:
                fits = _SHARED[expression] in self._shared[key]
            if not fits:
                return f"does not match {expression}"
        return None

    def contradicts(self, constraint: Json, devices: Sequence[DeviceKey]) -> Iterator[str]:
        """Yield how devices contradict a constraint."""
        same = "matchAttribute" in constraint
        name = constraint["matchAttribute" if same else "distinctAttribute"]
        values = [self._attribute(key, name.removeprefix(f"{key[0]}/")) for key in devices]
        if None in values or len(set(values)) != (1 if same else len(values)):
            yield f"{name} is {values}, and should be {'equal' if same else 'distinct'}"

    def _attribute(self, key: DeviceKey, name: str) -> Any:
        found = self._attributes.get(key, {}).get(name)
        return None if found is None else next(iter(found.values()))


def _chosen(request: Json, had: dict[str, list[DeviceKey]]) -> tuple[str, Json]:
    """Return the name by which a request's devices go, and what is asked for; of alternatives the one that was chosen."""
    if "exactly" in request:
        return request["name"], request["exactly"]
    names = {f"{request['name']}/{each['name']}": each for each in request["firstAvailable"]}
    none = f"one of {', '.join(names)}", dict[str, Any]()
    return next(((name, each) for name, each in names.items() if name in had), none)
