"""The vNPUs of one chip, as its driver reports them: which exist, and what of the chip is left.

In: a session, a chip's place in DCMI. Out: values. Nothing is remembered.
"""

from ctypes import Structure
from dataclasses import dataclass
from typing import Any

from apportion.agent.devices.ascend.session import Session
from apportion.agent.devices.ascend.structures import (
    FREE,
    ONE,
    TOTAL,
    VDEVICES,
    FreeInfo,
    Resources,
    TotalInfo,
    VdeviceInfo,
)
from apportion.agent.devices.models import NPU_ENGINES
from apportion.agent.devices.values import MIB, CounterAmounts
from apportion.errors import HardwareError

_NO_MEMORY = 0xFFFFFFFFFFFFFFFF
_NO_CPUS = 0xFFFF
_NO_NAME = 0xFF


@dataclass(frozen=True, slots=True)
class ChipAddress:
    """Where a chip is in DCMI."""

    name: str
    """Of its card in slices, for messages."""
    card: int
    device: int


@dataclass(frozen=True, slots=True)
class Vnpu:
    """One vNPU that exists."""

    id: int
    template: str
    """"" when the driver does not report it."""
    in_use: bool


def list_ids(session: Session, address: ChipAddress) -> tuple[int, ...]:
    """Return the ids of the vNPUs that exist, lowest first."""
    found = _ask(session, address, TOTAL, TotalInfo())
    return tuple(sorted(found.ids[: found.number]))


def list_all(session: Session, address: ChipAddress) -> tuple[Vnpu, ...]:
    """Describe every vNPU that exists, lowest id first; one that goes meanwhile is left out, and says nothing of the chip."""
    found: list[Vnpu] = []
    for number in list_ids(session, address):
        try:
            found.append(describe(session, address, number))
        except HardwareError:
            if number in list_ids(session, address):
                raise
    return tuple(found)


def describe(session: Session, address: ChipAddress, number: int) -> Vnpu:
    """Describe one vNPU; raises Lost when it is not there."""
    found = _ask(session, address, ONE, VdeviceInfo(id=number))
    raw = bytes(found.name)
    return Vnpu(
        id=number,
        template="" if raw[0] == _NO_NAME else raw.split(b"\0", 1)[0].decode(errors="replace"),
        in_use=bool(found.in_use),
    )


def left(session: Session, address: ChipAddress) -> CounterAmounts:
    """Return what is free on the chip, without what the driver does not count."""
    return _amounts(_ask(session, address, FREE, FreeInfo()).resources)


def total(session: Session, address: ChipAddress) -> CounterAmounts | None:
    """Return what the chip has for vNPUs, taken or not; None where its driver says that it has none."""
    found = TotalInfo()
    if not session.informs(address.card, address.device, VDEVICES, TOTAL, found, about=address.name):
        return None
    return _amounts(found.resources)


def _ask(session: Session, address: ChipAddress, sub: int, out: Structure) -> Any:
    return session.info(address.card, address.device, VDEVICES, sub, out, about=address.name)


def _amounts(found: Resources) -> CounterAmounts:
    amounts: dict[str, int] = {}
    if found.computing.cores >= 0:
        amounts["aicore"] = int(found.computing.cores)
    if found.computing.aicpu != _NO_CPUS:
        amounts["aicpu"] = found.computing.aicpu
    if found.computing.memory != _NO_MEMORY:
        amounts["memory"] = found.computing.memory * MIB
    return amounts | {name: int(value) for name in NPU_ENGINES if (value := getattr(found.media, name)) >= 0}
