"""Charge: what an allocation takes, device by device, as quotas count it.

In: a claim, its allocation, the devices as they are published. Out: a charge for each device; what administrators look at
(`adminAccess`) takes nothing. A share takes what it consumes, and at least a hundredth of its device, of which what others have lost and still
use is a part; a partition or a whole device all its capacity, and of counters that
no capacity of it is named after, what it takes from them.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

from apportion.api.contract import HELD_PART
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.device import Device, DeviceId, qualify
from apportion.dra.quantity import NANO

Published: TypeAlias = Callable[[DeviceId], Device | None]
"""Returns a device as its driver publishes it; None: in no slice."""
PROFILES = ("profile", "template")
"""Attributes, in the driver's own domain, that name a MIG profile or a vNPU template."""
MODELS = ("productName", "model")
"""Attributes, in the driver's own domain, that name the model of a GPU or an NPU."""
LEAST_SHARE = NANO // 100
"""What a share counts at least where devices are counted, in 10^-9: one that consumes nothing, or a byte, uses its device all the same."""


class Charge(NamedTuple):
    """What one allocated device counts. Equal ones are counted together."""

    device_class: str
    """The DeviceClass by which it was requested; empty: unknown."""
    driver: str
    profile: str = ""
    """Of a partition."""
    model: str = ""
    devices: int = NANO
    """In 10^-9 of a device: less than one for a share."""
    amounts: tuple[tuple[str, int], ...] = ()
    """By full name, in 10^-9."""
    published: bool = True
    """Whether a slice has the device; otherwise profile, model, how much of it a share is, and amounts that are not those of a share are not known."""


def charges(claim: Claim, allocation: Allocation, published: Published) -> tuple[Charge, ...]:
    """Return what the allocation of a claim takes; a device that is not published counts as one device without capacity, a share of it as the least one."""
    classes = dict(_classes(claim))
    return tuple(
        charge(result, classes.get(result.request, ""), published(result.device))
        for result in allocation.results
        if not result.admin_access
    )


def charge(result: DeviceResult, device_class: str, device: Device | None) -> Charge:
    """Return what one allocated device takes."""
    driver = result.device.driver
    # Of a capacity that has two names the qualified one counts, as where devices are read.
    names = sorted(result.consumed, key=lambda name: "/" in name)
    consumed = {qualify(name, driver): result.consumed[name].nano for name in names}
    is_share = result.share_id is not None and bool(result.consumed)
    if device is None:
        least = LEAST_SHARE if is_share else NANO
        return Charge(device_class, driver, "", "", least, tuple(sorted(consumed.items())), published=False)
    devices, amounts = NANO, whole_amounts(device)
    if is_share:
        parts = [-(-taken * NANO // amounts[name]) for name, taken in consumed.items() if amounts.get(name)]
        devices, amounts = min(max([LEAST_SHARE, *parts]) if parts else NANO, NANO), consumed
    named = first_attribute(device, PROFILES), first_attribute(device, MODELS)
    return Charge(device_class, driver, *named, devices, tuple(sorted(amounts.items())))


def whole_amounts(device: Device) -> dict[str, int]:
    """Return the capacity of a device, with what claims still have of it that have lost their shares, and what it takes of counters that no capacity of it is named after."""
    found: dict[str, int] = {}
    for consumption in device.consumes:
        for name, amount in consumption.counters:
            full = qualify(name, device.driver)
            found[full] = found.get(full, 0) + max(0, amount.nano)
    return found | {
        qualify(name, device.driver): max(0, each.value.nano) + _held(device, name)
        for name, each in device.capacity.items()
    }


def _held(device: Device, capacity: str) -> int:
    """Return how much of a capacity is not published, because claims that have lost their shares still have it."""
    if not device.shareable:
        return 0
    domain, _, name = qualify(capacity, device.driver).rpartition("/")
    value = device.attribute(f"{domain}/{HELD_PART}{name[:1].upper()}{name[1:]}")
    return max(0, value) * NANO if isinstance(value, int) else 0


def first_attribute(device: Device, names: tuple[str, ...]) -> str:
    """Return the first of these attributes that is a text; empty if none is."""
    for name in names:
        value = device.attribute(f"{device.driver}/{name}")
        if isinstance(value, str):
            return value
    return ""


def _classes(claim: Claim) -> Iterator[tuple[str, str]]:
    """Yield the class of each request, by the name that results give it."""
    for slot in claim.slots:
        for request in slot.alternatives:
            yield (
                f"{slot.name}/{request.name}" if slot.prioritized else slot.name,
                request.device_class,
            )
    yield from claim.unread_requests
