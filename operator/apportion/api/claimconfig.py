"""Configuration: whether our agents would set up devices as a claim and its classes ask, and which devices suit what they ask.

In: a claim, its classes, the drivers of our agents. Out: nothing, or BrokenInput naming object and field; the claim with further
selectors. The agents check the same when they prepare; here it is found out before devices are given away, and in `chosendevices.py`
what depends on the devices. What is meant for other drivers is theirs to judge.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from math import inf
from typing import Any

from apportion.api import deviceconfig
from apportion.api.configentries import (
    entries_about,
    entries_of_claim,
    entries_of_classes,
    is_for,
    with_selectors,
)
from apportion.api.contract import NETWORK_DEVICE, VIRTUAL_FUNCTION
from apportion.api.deviceconfig import NpuConfig, in_force
from apportion.api.meant import meant
from apportion.api.suitable import TYPES, card_of
from apportion.dra.allocation import ConfigResult
from apportion.dra.claim import Claim, Config, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import BrokenInput
from apportion.settings import CARDS

_MISTYPED = 0.8
"""Similarity of a driver's name to one of ours by which it is taken for that; what is for other vendors' drivers is nobody's mistake."""


def check_configuration(
    claim: Claim,
    classes: Mapping[str, DeviceClass],
    drivers: Collection[str],
    cards: Mapping[str, str] = CARDS,
) -> None:
    """Raise BrokenInput for the first configuration that no agent of ours honours; `classes` are by name, `cards` the kinds of cards by driver.

    What other entries override for every request is not looked at: it holds for no device. For which devices parameters are is
    not looked at where the kind of the driver's cards is not known.
    """
    found = {**entries_of_claim(claim), **entries_of_classes(claim, classes)}
    if not any(is_for(entry, drivers) for entry in found.values()):
        return
    about = set[str]()
    most: dict[str, dict[str, float]] = defaultdict(dict)
    """How many devices each request gets at most for which an entry holds."""
    for slot in claim.slots:
        for request in slot.alternatives:
            about |= entries_about(claim, classes, slot, request).keys()
            count = request.count if request.mode == "ExactCount" else inf
            for field in _holding(claim, classes, drivers, slot, request):
                most[field][slot.name] = max(count, most[field].get(slot.name, 0))
    for field, entry in found.items():
        if is_for(entry, drivers) and (field in most or field not in about):
            at, opaque = f"{field}.opaque.parameters", entry.opaque or {}
            config = deviceconfig.read(opaque.get("parameters"), field=at)
            card = cards.get(opaque["driver"])
            if card is not None and card != (suitable := card_of(TYPES[config.kind])):
                reason = f"{config.kind} is for {suitable.upper()}s, not for a {card}"
                raise BrokenInput(reason, field=f"{at}.kind")
            if isinstance(config, NpuConfig) and config.rank_table:
                _check_rank_table(most.get(field, {}), named=bool(entry.requests), at=at)


def _check_rank_table(most: Mapping[str, float], *, named: bool, at: str) -> None:
    """Raise BrokenInput where parameters ask for a rank table and it would be of one device; `most`: devices by request, `named`: all of these have to have it."""
    single = [name for name, count in most.items() if count == 1]
    if single and (named or len(single) == len(most)):
        raise BrokenInput(
            f"request {single[0]} has no rank table: it asks for one NPU", field=f"{at}.rankTable"
        )


def check_drivers(
    claim: Claim,
    classes: Mapping[str, DeviceClass],
    drivers: Collection[str],
    published: Collection[str],
) -> None:
    """Raise BrokenInput for configuration of a driver that has no device and is called nearly like one of ours: nobody would honour it.

    `published`: the drivers that have devices.
    """
    for field, entry in {**entries_of_claim(claim), **entries_of_classes(claim, classes)}.items():
        driver = str((entry.opaque or {}).get("driver", ""))
        near = meant(driver, drivers, least=_MISTYPED)
        if near and driver not in drivers and driver not in published:
            raise BrokenInput(f"{driver} has no devices{near}", field=f"{field}.opaque.driver")


def as_asked(claim: Claim, classes: Mapping[str, DeviceClass], drivers: Collection[str]) -> Claim:
    """Return the claim with a selector in each request for which it, or the class, asks for network devices.

    A NIC whose interface the node itself needs is offered for its character devices; for such a request it will not do.
    """
    found = (*entries_of_claim(claim).values(), *entries_of_classes(claim, classes).values())
    if not any(asks_for_network(entry, drivers) for entry in found):
        return claim

    def needed(slot: RequestSlot, request: Request) -> Iterable[str]:
        entries = _holding(claim, classes, drivers, slot, request).values()
        asking = [entry.opaque or {} for entry in entries if asks_for_network(entry, drivers)]
        return dict.fromkeys(text for opaque in asking for text in _selectors(opaque))

    return with_selectors(claim, needed)


def _holding(
    claim: Claim,
    classes: Mapping[str, DeviceClass],
    drivers: Collection[str],
    slot: RequestSlot,
    request: Request,
) -> dict[str, Config]:
    """Return those entries about a request that others do not override, whatever devices it gets, by their fields."""
    found: dict[str, Config] = {}
    for driver in drivers:
        about = [
            each for each in entries_about(claim, classes, slot, request).items() if is_for(each[1], {driver})
        ]
        found |= dict(about[position] for position in in_force([entry for _, entry in about]))
    return found


def _selectors(opaque: Mapping[str, Any]) -> Iterator[str]:
    driver, parameters = opaque["driver"], opaque["parameters"]
    needed = (NETWORK_DEVICE, *((VIRTUAL_FUNCTION,) if parameters.get("virtualFunction") is not None else ()))
    at = f'device.attributes["{driver}"]'
    for name in needed:
        # What is no NIC is left to the check of what was chosen, which says so: where a driver has another name, its cards are not known here.
        # What is needed goes first, because an Event has room for the beginning of a selector.
        yield f'{at}.?{name}.orValue(false) || device.driver != "{driver}" || {at}.?type.orValue("nic") != "nic"'


def asks_for_network(entry: Config | ConfigResult, drivers: Collection[str]) -> bool:
    """Say whether an entry, of a claim, a class or an allocation, asks for network devices of our agents."""
    return is_for(entry, drivers) and deviceconfig.kind_of(entry) == "NetworkConfig"
