"""One partition cut on an idle, empty card, looked at, and removed; the only thing here that changes hardware.

In: the cards that answered. Out: the card that would be cut, and checks of what happened. The MIG mode is as before afterwards.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import pynvml

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.values import CardKind, Health, PartitionPlace, Placement, Profile
from apportion.errors import HardwareError
from testbed.realcard.look import Found, host_checks
from testbed.realcard.report import Check, Verdict

_nvml: Any = pynvml
"""The same module where its missing annotations stand in the way."""


def candidate(cards: Sequence[Found]) -> Found | None:
    """Return a card that can be cut, is healthy, has no partition and runs nothing; None when there is none."""
    return next((each for each in cards if each.card.profiles and _idle(each)), None)


def smallest(each: Found) -> Profile:
    """Return the profile that takes the least memory."""
    return min(each.card.profiles, key=lambda profile: profile.amounts.get("memory", 0))


def cut_and_remove(each: Found, host: HostFiles) -> Iterator[Check]:
    """Cut the smallest partition at its first place, look at it, remove it; yields a check for each step."""
    card, backend = each.card, each.backend
    profile = smallest(each)
    where = profile.placements[0] if profile.placements else Placement(card.instance_ids[0], 1)
    place = PartitionPlace(card.name, profile.name, where)
    mode = _mig_mode(each)
    name = f"{card.name}: cut {profile.name}"
    try:
        live = backend.create(place)
    except HardwareError as error:
        yield Check(name, Verdict.BAD, f"{type(error).__name__}: {error}")
        left = [row for row in backend.partitions_of(card.name) if row.place == place]
        if not left:
            return
        live = left[0]
    else:
        yield Check(name, Verdict.OK, f"{place}, {live.uuid}")
        yield from host_checks(card, live.edits, host)
    try:
        backend.destroy(live)
        _put_back(each, mode)
        still = [row for row in backend.partitions_of(card.name) if row.place == place]
    except HardwareError as error:
        yield Check(f"{card.name}: remove it", Verdict.BAD, f"{place} may be left: {error}")
        return
    if still or _mig_mode(each) != mode:
        yield Check(f"{card.name}: remove it", Verdict.BAD, f"{place} is left, or the MIG mode is another")
    else:
        yield Check(f"{card.name}: remove it", Verdict.OK, "nothing is left")


def _idle(each: Found) -> bool:
    card = each.card
    try:
        if each.backend.partitions_of(card.name):
            return False
        if each.backend.health().get(card.name, Health.HEALTHY) is not Health.HEALTHY:
            return False
    except HardwareError:
        return False
    if card.kind is not CardKind.GPU:
        return True
    try:
        handle = pynvml.nvmlDeviceGetHandleByUUID(card.uuid)
        return not pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    except pynvml.NVMLError:
        return False


def _mig_mode(each: Found) -> int | None:
    """Return the MIG mode of a GPU now, None for what has none."""
    if each.card.kind is not CardKind.GPU:
        return None
    try:
        return int(_nvml.nvmlDeviceGetMigMode(pynvml.nvmlDeviceGetHandleByUUID(each.card.uuid))[0])
    except pynvml.NVMLError as error:
        raise HardwareError(f"MIG mode of {each.card.name}: {error}") from None


def _put_back(each: Found, mode: int | None) -> None:
    """Give a GPU the MIG mode that it had: cutting switches it on, removing the last partition switches it off."""
    if mode == _mig_mode(each):
        return
    try:
        _nvml.nvmlDeviceSetMigMode(pynvml.nvmlDeviceGetHandleByUUID(each.card.uuid), mode)
    except pynvml.NVMLError as error:
        raise HardwareError(f"MIG mode of {each.card.name}: {error}") from None
