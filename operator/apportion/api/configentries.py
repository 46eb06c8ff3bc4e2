"""Entries of `config`, of a claim and of its classes, by their fields.

In: a claim, its classes. Out: the entries about it or about one of its requests, with the field of each; and the claim with further
selectors, as what they ask for needs.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from apportion.dra.allocation import ConfigResult
from apportion.dra.claim import Claim, Config, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass


def entries_of_claim(claim: Claim) -> dict[str, Config]:
    """Return a claim's own entries."""
    return {f"spec.devices.config[{index}]": entry for index, entry in enumerate(claim.config)}


def entries_of_classes(claim: Claim, classes: Mapping[str, DeviceClass]) -> dict[str, Config]:
    """Return the entries of all classes that a claim names; `classes` are by name."""
    names = sorted(claim.classes & classes.keys())
    return {field: entry for name in names for field, entry in entries_of_class(classes[name]).items()}


def entries_of_class(device_class: DeviceClass) -> dict[str, Config]:
    """Return the entries of a class."""
    at = f"DeviceClass {device_class.name}: spec.config"
    return {f"{at}[{index}]": entry for index, entry in enumerate(device_class.config)}


def entries_about(
    claim: Claim, classes: Mapping[str, DeviceClass], slot: RequestSlot, request: Request
) -> dict[str, Config]:
    """Return the entries about a request by their fields, those of its class first, as an allocation has them."""
    names = {slot.name, f"{slot.name}/{request.name}"}
    found = entries_of_class(classes[request.device_class]) if request.device_class in classes else {}
    return found | {
        field: entry
        for field, entry in entries_of_claim(claim).items()
        if not entry.requests or names & {*entry.requests}
    }


def is_for(entry: Config | ConfigResult, drivers: Collection[str]) -> bool:
    """Say whether an entry has parameters for one of these drivers."""
    return entry.opaque is not None and entry.opaque.get("driver") in drivers


def with_selectors(claim: Claim, more: Callable[[RequestSlot, Request], Iterable[str]]) -> Claim:
    """Return the claim with further selectors of each request."""
    slots = [
        [replace(each, selectors=(*each.selectors, *more(slot, each))) for each in slot.alternatives]
        for slot in claim.slots
    ]
    own = zip(claim.slots, slots, strict=True)
    return replace(claim, slots=tuple(replace(slot, alternatives=tuple(each)) for slot, each in own))
