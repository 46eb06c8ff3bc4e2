"""Chosen devices: whether agents would prepare for a claim what it would get, as its configuration asks.

In: a claim, its classes, the devices of a decision. Out: nothing, or BrokenInput naming object, field and reason; the claim with further
selectors, by which other devices are chosen. What can be found out from the claim alone is in `claimconfig.py`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import partial

from apportion.api import deviceconfig
from apportion.api.claimconfig import check_configuration
from apportion.api.configentries import (
    entries_about,
    entries_of_claim,
    entries_of_class,
    entries_of_classes,
    is_for,
    with_selectors,
)
from apportion.api.deviceconfig import NpuConfig, in_force, kind_of
from apportion.api.networkconfig import NetworkConfig
from apportion.api.suitable import TYPES, card_of, holding, suits
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim, Config, Request, RequestSlot
from apportion.dra.device import DeviceId
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput, UnsuitableConfiguration


def check_allocation(claim: Claim, allocation: Allocation, drivers: Collection[str]) -> None:
    """Raise BrokenInput for devices that no agent of ours prepares for one claim: shares of its own, under MPS, of several GPUs (ADR 0020)."""
    shared = {
        result.device.name
        for result in allocation.results
        if result.device.driver in drivers and result.share_id is not None and "cores" in result.consumed
        if not result.admin_access
    }
    if len(shared) > 1:
        raise BrokenInput(
            f"it would get shares of {' and '.join(sorted(shared))} on node {allocation.node}, each of which has an MPS control daemon"
            " of its own, and a program finds one: ask for each share by a claim of its own, or for whole GPUs by the selector"
            " !device.allowMultipleAllocations",
            field=f"ResourceClaim {claim.key}: spec.devices.requests",
        )


def without_shares(claim: Claim, drivers: Collection[str]) -> Claim:
    """Return the claim with selectors by which it gets no shares of devices of our agents."""
    own = [f'device.driver != "{driver}" || !device.allowMultipleAllocations' for driver in sorted(drivers)]
    return with_selectors(claim, lambda _slot, _request: own)


def check_suitable(
    claim: Claim,
    classes: Mapping[str, DeviceClass],
    allocation: Allocation,
    drivers: Collection[str],
    type_of: Callable[[DeviceId], str],
) -> None:
    """Raise UnsuitableConfiguration for parameters that agents would refuse, or ignore, for the devices that a claim would get.

    `type_of`: the published type of a device; "", which is not judged: nobody knows. Parameters without requests may be for the devices of
    some of several requests only.
    """
    found = {**entries_of_claim(claim), **entries_of_classes(claim, classes)}
    if not any(is_for(entry, drivers) for entry in found.values()):
        return
    devices = [result.device for result in allocation.results if result.device.driver in drivers]
    types = {device: type_ for device in devices if (type_ := type_of(device))}
    try:
        cards = {device.driver: card_of(type_) for device, type_ in types.items()}
        check_configuration(claim, classes, drivers, cards)
        _check_types(claim, classes, allocation, types)
    except BrokenInput as error:
        raise UnsuitableConfiguration(error, claim=claim.key) from None


def _check_types(
    claim: Claim, classes: Mapping[str, DeviceClass], allocation: Allocation, types: Mapping[DeviceId, str]
) -> None:
    """Raise BrokenInput for an entry that names a request for a device that it does not suit, or that suits none; `types` are published."""
    requests = dict(_requests(claim))
    several = len({requests[result.request][1].device_class for result in allocation.results}) > 1
    served = set[str]()
    left: dict[str, BrokenInput] = {}
    """What a device cannot keep that nothing else is for, by field."""
    for result in allocation.results:
        type_ = types.get(result.device)
        if type_ is None:
            continue
        found = _for_driver(claim, classes, result.device.driver, *requests[result.request], several=several)
        fields, entries = tuple(found), tuple(found.values())
        position = holding(entries, type_)
        for each in in_force(entries, partial(suits, type_=type_)) if position is None else [position]:
            kind = kind_of(entries[each])
            if suits(kind, type_):
                served.add(fields[each])
                continue
            error = BrokenInput(
                f"{kind} is for devices of type {TYPES[kind]}, and request {result.request} would get one of type {type_}",
                field=f"{fields[each]}.opaque.parameters.kind",
            )
            if position is not None:
                raise error
            if _asks(entries[each], fields[each]):
                left.setdefault(fields[each], error)
    for field, error in left.items():
        if field not in served or len(claim.slots) == 1:
            raise error


def suiting(claim: Claim, classes: Mapping[str, DeviceClass], drivers: Collection[str]) -> Claim:
    """Return the claim with selectors by which it gets no devices that parameters about their request are not for.

    Parameters without requests are about one request only where there is no other one.
    """
    several = len(claim.slots) > 1 and len(claim.classes) > 1

    def needed(slot: RequestSlot, request: Request) -> Iterator[str]:
        for driver in sorted(drivers):
            found = _for_driver(claim, classes, driver, slot, request, several=several)
            fields, entries = tuple(found), tuple(found.values())
            kept = in_force(entries)
            if any(entries[each].requests for each in kept) or (
                len(claim.slots) == 1 and any(_asks(entries[each], fields[each]) for each in kept)
            ):
                types = ", ".join(f'"{TYPES[kind_of(entries[each])]}"' for each in kept)
                at = f'device.attributes["{driver}"]'
                yield f'device.driver != "{driver}" || !has({at}.type) || {at}.type in [{types}]'

    return with_selectors(claim, needed)


def _requests(claim: Claim) -> Iterator[tuple[str, tuple[RequestSlot, Request]]]:
    """Yield the requests by the names that results give them."""
    for slot in claim.slots:
        for request in slot.alternatives:
            yield f"{slot.name}/{request.name}" if slot.prioritized else slot.name, (slot, request)


def _for_driver(
    claim: Claim,
    classes: Mapping[str, DeviceClass],
    driver: str,
    slot: RequestSlot,
    request: Request,
    *,
    several: bool,
) -> dict[str, Config]:
    """Return the entries for a driver about a request by their fields; those of its class name it where requests are of `several` classes."""
    found = entries_about(claim, classes, slot, request)
    names = (slot.name,) if several else ()
    of_class = entries_of_class(classes[request.device_class]) if request.device_class in classes else {}
    return {
        field: replace(entry, requests=names) if field in of_class else entry
        for field, entry in found.items()
        if is_for(entry, {driver})
    }


def _asks(entry: Config, field: str) -> bool:
    """Say whether parameters ask for something that a device without them does not do."""
    config = deviceconfig.read((entry.opaque or {}).get("parameters"), field=f"{field}.opaque.parameters")
    if isinstance(config, NpuConfig):
        return config.rank_table
    return isinstance(config, NetworkConfig) or config.sharing is not None
