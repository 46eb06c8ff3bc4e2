"""Configuration: whether our agents would set up devices as a claim and its classes ask.

In: a claim, its classes, the drivers of our agents. Out: nothing, or BrokenInput naming object and field. The agents check the
same when they prepare; here it is found out before devices are given away. What is meant for other drivers is theirs to judge.
"""

from collections.abc import Collection, Mapping, Sequence

from apportion.api import deviceconfig
from apportion.dra.claim import Claim, Config
from apportion.dra.deviceclass import DeviceClass


def check_configuration(claim: Claim, classes: Mapping[str, DeviceClass], drivers: Collection[str]) -> None:
    """Raise BrokenInput for the first configuration that no agent of ours honours; `classes` are by name."""
    _check(claim.config, drivers, "spec.devices")
    for name in sorted(claim.classes & classes.keys()):
        _check(classes[name].config, drivers, f"DeviceClass {name}: spec")


def _check(entries: Sequence[Config], drivers: Collection[str], at: str) -> None:
    for index, entry in enumerate(entries):
        if entry.opaque is not None and entry.opaque.get("driver") in drivers:
            deviceconfig.read(entry.opaque.get("parameters"), field=f"{at}.config[{index}].opaque.parameters")
