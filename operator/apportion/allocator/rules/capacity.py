"""Consumable capacity (KEP-5075): the amounts that a request consumes of a device, rounded by its request policy.

In: requested amounts and a device's capacities. Out: amounts to charge, or None where they do not fit. Kubernetes computes
valid ranges in int64 and refuses amounts beyond, so they are refused here too. An amount keeps the format in which it was
requested; one that a policy sets has the policy's, one rounded to a step the step's (Kubernetes 1.37, `roundUpRange`).
"""

from collections.abc import Iterable, Mapping

from apportion.allocator.rules.features import Features
from apportion.dra.capacity import Capacity, RequestPolicy
from apportion.dra.device import Device
from apportion.dra.quantity import NANO, Quantity
from apportion.errors import BrokenInput

MOST = 2**63 - 1
Amounts = Mapping[str, Quantity]


def charge(requested: Amounts, device: Device, features: Features) -> dict[str, Quantity] | None:
    """Return the amount that the request consumes of each capacity of the device; None if the device cannot serve it.

    Raises BrokenInput for a negative amount, and for one that int64 cannot hold.
    """
    if any(name not in device.capacity for name in requested):
        return None
    taken = {}
    for name, capacity in device.capacity.items():
        amount = _consumed(name, requested.get(name), capacity, features)
        if _violates(amount, capacity.policy, features):
            return None
        taken[name] = amount
    return taken


def fits(taken: Amounts, device: Device, used: Mapping[str, int]) -> bool:
    """Say whether the amounts fit in addition to those used already (in 10^-9, by capacity name)."""
    return all(
        used.get(name, 0) + amount.nano <= device.capacity[name].value.nano for name, amount in taken.items()
    )


def differing(shares: Iterable[Amounts], device: Device) -> str | None:
    """Return a capacity by which shares of a device are not of the device as it is published; None if there is none.

    A share consumes something of one that is not published, or names none of those of which a share may take something. What is left of
    the device is unknown then: its driver may have renamed a capacity.
    """
    takable = [name for name, capacity in device.capacity.items() if _takable(capacity)]
    for consumed in shares:
        for name, amount in consumed.items():
            if amount.nano and name not in device.capacity:
                return name
        for name in takable:
            if name not in consumed:
                return name
    return None


def _takable(capacity: Capacity) -> bool:
    values = capacity.policy.valid_values if capacity.policy is not None else ()
    return any(value.nano for value in values or (capacity.value,))


def _consumed(name: str, requested: Quantity | None, capacity: Capacity, features: Features) -> Quantity:
    policy = capacity.policy
    if requested is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if requested.nano < 0:
        raise BrokenInput(f"the requested amount {requested} is negative", field=f'capacity "{name}"')
    if policy is None:
        return requested
    if policy.minimum is not None:
        return _round_up(name, requested, policy, features)
    return next((value for value in policy.valid_values if requested <= value), requested)


def _round_up(name: str, requested: Quantity, policy: RequestPolicy, features: Features) -> Quantity:
    if policy.minimum is None or requested < policy.minimum:
        return policy.minimum or requested
    if policy.step is None:
        return requested
    unit = _unit(policy, requested, features)
    amount, low, step = (_units(value, unit) for value in (requested, policy.minimum, policy.step))
    if amount > MOST:
        raise _too_large(name, f"request {requested} exceeds MaxInt64")
    if step <= 0:
        return requested
    rounded = low + -(-(amount - low) // step) * step
    if rounded > MOST:
        raise _too_large(name, f"rounding request {requested} up to the next step passes MaxInt64")
    return Quantity(rounded * unit, policy.step.format)


def _violates(amount: Quantity, policy: RequestPolicy | None, features: Features) -> bool:
    if policy is None or amount == policy.default:
        return False
    if policy.minimum is not None:
        if policy.maximum is not None and amount > policy.maximum:
            return True
        if policy.step is None:
            return False
        unit = _unit(policy, amount, features)
        step = _units(policy.step, unit)
        return step > 0 and (_units(amount, unit) - _units(policy.minimum, unit)) % step != 0
    return bool(policy.valid_values) and amount not in policy.valid_values


def _unit(policy: RequestPolicy, amount: Quantity, features: Features) -> int:
    """Return the unit of the range arithmetic, in 10^-9: thousandths only with the feature, and if a value has a fraction."""
    if not features.fractional_capacity_range:
        return NANO
    values = (amount, policy.minimum, policy.step)
    fractional = any(value is not None and value.nano % NANO for value in values)
    return NANO // 1000 if fractional else NANO


def _units(value: Quantity, unit: int) -> int:
    return -(-value.nano // unit)


def _too_large(name: str, why: str) -> BrokenInput:
    return BrokenInput(
        f"capacity request cannot be represented in the device's range arithmetic: {why}",
        field=f'capacity "{name}"',
    )
