"""Consumable capacity (KEP-5075): what a request takes of a device, rounded by the device's policy.

In: requested amounts and a device's capacities. Out: amounts to charge, or "does not fit". Kubernetes computes ranges
in 64-bit integers and refuses what does not fit in them, so that is refused here too, though Python could go on.
"""

from collections.abc import Mapping

from apportion.allocator.rules.features import Features
from apportion.dra.device import Capacity, Device, RequestPolicy
from apportion.dra.quantity import NANO, Quantity
from apportion.errors import BrokenInput

MOST = 2**63 - 1
Amounts = Mapping[str, Quantity]


def charge(wanted: Amounts, device: Device, features: Features) -> dict[str, Quantity] | None:
    """Return what the request would take of every capacity of the device; None if the device cannot serve it.

    Raises BrokenInput for a negative amount, and for one that 64-bit arithmetic cannot hold.
    """
    if any(name not in device.capacity for name in wanted):
        return None
    taken = {}
    for name, capacity in device.capacity.items():
        amount = _consumed(name, wanted.get(name), capacity, features)
        if _violates(amount, capacity.policy, features):
            return None
        taken[name] = amount
    return taken


def fits(taken: Amounts, device: Device, used: Mapping[str, int]) -> bool:
    """Say whether the amounts fit beside what is used already (in 10^-9, by capacity name)."""
    return all(
        used.get(name, 0) + amount.nano <= device.capacity[name].value.nano for name, amount in taken.items()
    )


def _consumed(name: str, wanted: Quantity | None, capacity: Capacity, features: Features) -> Quantity:
    policy = capacity.policy
    if wanted is None:
        return policy.default if policy is not None and policy.default is not None else capacity.value
    if wanted.nano < 0:
        raise BrokenInput(f"the requested amount {wanted} is negative", field=f'capacity "{name}"')
    if policy is None:
        return wanted
    if policy.minimum is not None:
        return _round_up(name, wanted, policy, features)
    return next((value for value in policy.valid_values if wanted <= value), wanted)


def _round_up(name: str, wanted: Quantity, policy: RequestPolicy, features: Features) -> Quantity:
    if policy.minimum is None or wanted < policy.minimum:
        return policy.minimum or wanted
    if policy.step is None:
        return wanted
    unit = _unit(policy, wanted, features)
    asked, low, step = (_units(value, unit) for value in (wanted, policy.minimum, policy.step))
    if asked > MOST:
        raise _too_large(name, f"request {wanted} exceeds MaxInt64")
    if step <= 0:
        return wanted
    rounded = low + -(-(asked - low) // step) * step
    if rounded > MOST:
        raise _too_large(name, f"rounding request {wanted} up to the next step passes MaxInt64")
    return Quantity(rounded * unit, "BinarySI")


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
    """Return the unit of the arithmetic, in 10^-9: thousandths only where the feature is on and something needs them."""
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
