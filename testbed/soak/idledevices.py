"""Whether devices are idle that a pod waits for, found by trying all choices, without the product's code.

In: slices, claims, pods. Out: pods that wait beside free devices, in words. Left out are pods of groups, pods that ask for a share or for a claim
by name, and nodes on which a pod has too many choices.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import chain, product, repeat
from math import prod
from typing import Any, Final

from testbed import violations
from testbed.api import Json
from testbed.soak.fulfilment import Fulfilment
from testbed.soak.specs import SPECS
from testbed.violations import DeviceKey, Devices

_GUARD: Final = "/guard"
"""End of the key of the taint that the product's claims tolerate."""
_MOST_CHOICES: Final = 20_000
"""On one node; nothing is said where there are more."""
_Left = Mapping[DeviceKey, Mapping[str, Fraction]]
_Pick = tuple[str, Json]
"""A request's name, and what one device is asked for."""


class IdleDevices:
    """What is free at one moment."""

    def __init__(self, devices: Devices, slices: Iterable[Json], claims: Iterable[Json]) -> None:
        """`devices`: what slices ever published; `slices` and `claims` are those of now."""
        self._takes, self._fulfilment = devices.takes, Fulfilment()
        self._published: dict[str, list[DeviceKey]] = defaultdict(list)
        """By node."""
        self._free: dict[str, list[DeviceKey]] = defaultdict(list)
        """What of it has no taint, and could be had by itself."""
        claims = [each for each in claims if each.get("status", {}).get("allocation")]
        self._allocated = {(each["metadata"]["namespace"], each["metadata"]["name"]) for each in claims}
        used = {use.device for claim in claims for use in violations.uses(claim)}
        left = {key: dict(amounts) for key, amounts in devices.published.items()}
        for device in used:
            for counter_set, taken in self._takes.get(device, {}).items():
                for name, amount in taken.items():
                    left[counter_set][name] -= amount
        self._left: _Left = left
        for piece in slices:
            spec = piece["spec"]
            self._fulfilment.learn(piece)
            for device in spec.get("devices") or ():
                key = spec["driver"], spec["pool"]["name"], device["name"]
                tainted = any(not taint["key"].endswith(_GUARD) for taint in device.get("taints") or ())
                self._published[spec["nodeName"]].append(key)
                if key not in used and not tainted and self._without(left, key) is not None:
                    self._free[spec["nodeName"]].append(key)

    def beside(self, pods: Iterable[Json]) -> Iterator[str]:
        """Yield the pods that wait for what is free."""
        found: dict[tuple[str, ...], Sequence[DeviceKey] | None] = {}
        for pod in pods:
            metadata, names = pod["metadata"], _templates(pod)
            made = {(metadata["namespace"], name) for name in violations.claims_of(pod)}
            if names is None or not made or made & self._allocated:
                continue
            if names not in found:
                found[names] = self._serve([SPECS[name]["devices"] for name in names])
            if (devices := found[names]) is not None:
                free = ", ".join("/".join(key) for key in devices)
                yield f"pod {metadata['namespace']}/{metadata['name']} waits for {names}, and {free} is free"

    def _serve(self, specs: Sequence[Json]) -> Sequence[DeviceKey] | None:
        """Return devices of one node that claims with these specs could have."""
        for node in self._free:
            for requests in product(*([*_alternatives(spec)] for spec in specs)):
                picks = [[*self._picks(each, node)] for each in requests]
                fitting = [self._fitting(request, self._free[node]) for _, request in chain(*picks)]
                if not all(picks) or prod(map(len, fitting)) > _MOST_CHOICES:
                    continue
                for devices in self._choose(fitting, self._left):
                    rest = iter(devices)
                    if all(self._agree(*each, rest) for each in zip(specs, picks, strict=True)):
                        return devices
        return None

    def _picks(self, requests: Mapping[str, Json], node: str) -> Iterator[_Pick]:
        for name, request in requests.items():
            is_all = request.get("allocationMode") == "All"
            count = len(self._fitting(request, self._published[node])) if is_all else request.get("count", 1)
            yield from repeat((name, request), count)

    def _fitting(self, request: Json, devices: Sequence[DeviceKey]) -> Sequence[DeviceKey]:
        return [key for key in devices if self._fulfilment.wrong(key, request) is None]

    def _choose(
        self, fitting: Sequence[Sequence[DeviceKey]], left: _Left, *before: DeviceKey
    ) -> Iterator[Sequence[DeviceKey]]:
        """Yield all choices of one device of each."""
        if len(before) == len(fitting):
            yield before
            return
        for key in fitting[len(before)]:
            if key not in before and (less := self._without(left, key)) is not None:
                yield from self._choose(fitting, less, *before, key)

    def _without(self, left: _Left, device: DeviceKey) -> _Left | None:
        """Return what is left when a device is taken; None: there is too little."""
        found = dict(left)
        for counter_set, taken in self._takes[device].items():
            amounts = dict(found[counter_set])
            for name, amount in taken.items():
                amounts[name] = amounts.get(name, Fraction(0)) - amount
                if amounts[name] < 0:
                    return None
            found[counter_set] = amounts
        return found

    def _agree(self, spec: Json, picks: Sequence[_Pick], rest: Iterator[DeviceKey]) -> bool:
        """Say whether the devices of one claim, the next ones, meet its constraints."""
        devices = [(name, next(rest)) for name, _ in picks]
        for constraint in spec.get("constraints") or ():
            names = constraint.get("requests") or [name for name, _ in picks]
            if any(self._fulfilment.contradicts(constraint, [key for name, key in devices if name in names])):
                return False
        return True


def _templates(pod: Json) -> tuple[str, ...] | None:
    """Return the templates that a waiting pod's claims are made from; None: nothing is said of the pod."""
    metadata, spec = pod["metadata"], pod["spec"]
    if (
        spec.get("nodeName")
        or "deletionTimestamp" in metadata
        or metadata.get("labels", {}).get("apportion.dev/pod-group")
    ):
        return None
    names = [each.get("resourceClaimTemplateName") for each in spec.get("resourceClaims") or ()]
    if not names or any(name is None or name.startswith("share") for name in names):
        return None
    return tuple(names)


def _alternatives(spec: Json) -> Iterator[dict[str, Any]]:
    """Yield each choice among the alternatives of a spec's requests, by request."""
    choices = [
        [each["exactly"]] if "exactly" in each else each["firstAvailable"] for each in spec["requests"]
    ]
    for chosen in product(*choices):
        yield dict(zip((each["name"] for each in spec["requests"]), chosen, strict=True))
