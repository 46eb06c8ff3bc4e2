"""Configuration: whether our agents would set up devices as a claim and its classes ask, and which devices suit what they ask.

In: a claim, its classes, the drivers of our agents; devices that it would get. Out: nothing, or BrokenInput naming object and field;
the claim with further selectors. The agents check the same when they prepare; here it is found out before devices are given away.
What is meant for other drivers is theirs to judge.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from apportion.api import deviceconfig
from apportion.api.contract import NETWORK_DEVICE, VIRTUAL_FUNCTION
from apportion.dra.allocation import Allocation, ConfigResult
from apportion.dra.claim import Claim, Config, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput


def check_configuration(claim: Claim, classes: Mapping[str, DeviceClass], drivers: Collection[str]) -> None:
    """Raise BrokenInput for the first configuration that no agent of ours honours; `classes` are by name."""
    _check(claim.config, drivers, "spec.devices")
    for name in sorted(claim.classes & classes.keys()):
        _check(classes[name].config, drivers, f"DeviceClass {name}: spec")


def as_asked(claim: Claim, classes: Mapping[str, DeviceClass], drivers: Collection[str]) -> Claim:
    """Return the claim with a selector in each request for which it, or the class, asks for network devices.

    A NIC whose interface the node itself needs is offered for its character devices; for such a request it will not do.
    """
    own = [entry for entry in claim.config if asks_for_network(entry, drivers)]
    of_classes = {
        name: [entry for entry in classes[name].config if asks_for_network(entry, drivers)]
        for name in claim.classes & classes.keys()
        if classes[name].config
    }
    if not own and not any(of_classes.values()):
        return claim

    def needed(slot: RequestSlot, request: Request) -> Iterable[str]:
        names = {slot.name, f"{slot.name}/{request.name}"}
        entries = [entry for entry in own if not entry.requests or names & {*entry.requests}]
        entries += of_classes.get(request.device_class, ())
        return dict.fromkeys(text for entry in entries for text in _selectors(entry.opaque or {}))

    return _selected(claim, needed)


def without_shares(claim: Claim, drivers: Collection[str]) -> Claim:
    """Return the claim with selectors by which it gets no shares of devices of our agents."""
    own = [f'device.driver != "{driver}" || !device.allowMultipleAllocations' for driver in sorted(drivers)]
    return _selected(claim, lambda _slot, _request: own)


def _selected(claim: Claim, more: Callable[[RequestSlot, Request], Iterable[str]]) -> Claim:
    """Return the claim with further selectors of each request."""
    slots = [
        [replace(each, selectors=(*each.selectors, *more(slot, each))) for each in slot.alternatives]
        for slot in claim.slots
    ]
    own = zip(claim.slots, slots, strict=True)
    return replace(claim, slots=tuple(replace(slot, alternatives=tuple(each)) for slot, each in own))


def _selectors(opaque: Mapping[str, Any]) -> Iterator[str]:
    driver, parameters = opaque["driver"], opaque["parameters"]
    needed = (NETWORK_DEVICE, *((VIRTUAL_FUNCTION,) if parameters.get("virtualFunction") is not None else ()))
    for name in needed:
        yield f'device.driver != "{driver}" || device.attributes["{driver}"].?{name}.orValue(false)'


def asks_for_network(entry: Config | ConfigResult, drivers: Collection[str]) -> bool:
    """Say whether an entry, of a claim, a class or an allocation, asks for network devices of our agents."""
    opaque = entry.opaque or {}
    return opaque.get("driver") in drivers and deviceconfig.asks_for_network(opaque.get("parameters"))


def check_allocation(claim: Claim, allocation: Allocation, drivers: Collection[str]) -> None:
    """Raise BrokenInput for devices that no agent of ours prepares for one claim: shares, under MPS, of several GPUs (ADR 0020)."""
    shared = {
        result.device.name
        for result in allocation.results
        if result.device.driver in drivers and result.share_id is not None and "cores" in result.consumed
    }
    if len(shared) > 1:
        raise BrokenInput(
            f"it would get shares of {' and '.join(sorted(shared))} on node {allocation.node}, each of which has an MPS control daemon"
            " of its own, and a program finds one: ask for each share by a claim of its own, or for whole GPUs by the selector"
            " !device.allowMultipleAllocations",
            field=f"ResourceClaim {claim.key}: spec.devices.requests",
        )


def _check(entries: Sequence[Config], drivers: Collection[str], at: str) -> None:
    for index, entry in enumerate(entries):
        if entry.opaque is not None and entry.opaque.get("driver") in drivers:
            deviceconfig.read(entry.opaque.get("parameters"), field=f"{at}.config[{index}].opaque.parameters")
