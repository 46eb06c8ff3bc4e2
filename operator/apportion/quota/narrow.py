"""narrowed(): claims that ask for less of a resource than the devices that were chosen for them take.

In: claims, the devices chosen, the resource of which these take more than its limit leaves. Out: claims with selectors that leave out
devices which take so much, or without the alternative; or None, where nothing is left to ask for.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim, Request, RequestSlot
from apportion.dra.device import Device
from apportion.dra.quantity import NANO, Quantity
from apportion.quota.charge import MODELS, PROFILES, Charge, Published, charge, first_attribute
from apportion.quota.resource import Resource


@dataclass(frozen=True, slots=True)
class _Taken:
    """A device that counts in the resource."""

    claim: int
    request: str
    """As results name it."""
    device: Device | None
    charge: Charge
    amount: int
    shared: bool


def narrowed(
    claims: tuple[Claim, ...],
    allocations: Sequence[Allocation],
    resource: Resource,
    left: int,
    published: Published,
) -> tuple[Claim, ...] | None:
    """Return the claims without devices of which so many would take more than `left` of the resource.

    Devices that take at most an equal part each stay. An alternative of which no selector can leave out the devices is dropped.
    """
    taken = [*_taken(claims, allocations, resource, published)]
    if not taken:
        return None
    most = max(left, 0) // len(taken)
    found = [*claims]
    for each in taken:
        if each.amount > most:
            # What has no other devices stays: others may leave it more than an equal part.
            found[each.claim] = _without(found[each.claim], each, resource, most) or found[each.claim]
    made = tuple(found)
    return None if made == claims else made


def _taken(
    claims: Sequence[Claim], allocations: Sequence[Allocation], resource: Resource, published: Published
) -> Iterable[_Taken]:
    for number, (claim, allocation) in enumerate(zip(claims, allocations, strict=True)):
        classes = {_label(slot, one): one.device_class for slot in claim.slots for one in slot.alternatives}
        for result in allocation.results:
            device = published(result.device)
            own = charge(result, classes.get(result.request, ""), device)
            amount = resource.amount(own)
            if amount and not result.admin_access:
                yield _Taken(number, result.request, device, own, amount, result.share_id is not None)


def _label(slot: RequestSlot, request: Request) -> str:
    return f"{slot.name}/{request.name}" if slot.prioritized else slot.name


def _without(claim: Claim, taken: _Taken, resource: Resource, most: int) -> Claim | None:
    """Return the claim without devices like this one in the request that got it; None: no alternative is left."""
    text = _selector(taken, resource, most)
    slots: list[RequestSlot] = []
    for slot in claim.slots:
        alternatives = []
        for one in slot.alternatives:
            if _label(slot, one) != taken.request:
                alternatives.append(one)
            elif text and text not in one.selectors:
                alternatives.append(replace(one, selectors=(*one.selectors, text)))
            elif text:
                alternatives.append(one)  # another device of the same request has brought it
        if not alternatives:
            return None
        slots.append(replace(slot, alternatives=tuple(alternatives)))
    return replace(claim, slots=tuple(slots))


def _selector(taken: _Taken, resource: Resource, most: int) -> str:
    """Return a selector that no device like this one matches; empty: there is none."""
    device, driver = taken.device, taken.charge.driver
    if device is None:
        return ""
    escapes = [f'device.driver != "{driver}"']
    escapes += _other(device, PROFILES, taken.charge.profile if resource.profile else "")
    escapes += _other(device, MODELS, taken.charge.model if resource.model else "")
    # Of a device a share takes what is asked for, however much the device has.
    bound = _capacity(device, resource, most) if not taken.shared else []
    if len(escapes) == 1 and not bound:
        return ""  # the class alone is counted
    return " || ".join((*escapes, *bound))


def _other(device: Device, names: tuple[str, ...], value: str) -> list[str]:
    """Return the condition that a device has another value; none where any value is counted."""
    name = next((name for name in names if first_attribute(device, (name,))), "")
    if not value or not name:
        return []
    return [f'device.attributes["{device.driver}"].?{name}.orValue("") != "{_quoted(value)}"']


def _capacity(device: Device, resource: Resource, most: int) -> list[str]:
    """Return the condition that a device has little of the capacity that is counted; none where it publishes no such capacity."""
    domain, _, name = resource.capacity.rpartition("/")
    published = {key.rpartition("/")[2] for key in device.capacity}
    if not name.isidentifier() or name not in published or domain not in ("", device.driver):
        return []
    # Rounded down to what CEL's quantities can say.
    text = str(Quantity(most // NANO * NANO, resource.form))
    return [
        f'device.capacity["{device.driver}"].?{name}.orValue(quantity("0")).compareTo(quantity("{text}")) <= 0'
    ]


def _quoted(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')
