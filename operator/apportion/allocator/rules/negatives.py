"""negative(): an amount below zero of a device. A charge of it would give back what others hold, so the device is not allocated.

In: a device. Out: the field that has the amount. The API server stores one: its
validation of ResourceSlices (`validateRequestPolicy`, `validateDeviceCounter`) does not look at signs.
"""

from apportion.dra.device import Device


def negative(device: Device) -> str:
    """Return the path inside the device of an amount that is less than zero, and what it is; empty where there is none.

    Amounts that a request consumes of it: capacity, what a request policy gives to those that name none, counters.
    """
    for name, capacity in device.capacity.items():
        if capacity.value.nano < 0:
            return f"capacity[{name}].value: {capacity.value}"
        policy = capacity.policy
        if policy is not None and policy.default is not None and policy.default.nano < 0:
            return f"capacity[{name}].requestPolicy.default: {policy.default}"
    for number, need in enumerate(device.consumes):
        for name, amount in need.counters:
            if amount.nano < 0:
                return f"consumesCounters[{number}].counters[{name}].value: {amount}"
    return ""
