"""What is published of a generic device: its identity, attributes and capacities, from its files.

In: a device that is there, its kind. Out: values, and in words what could not be read: that is left out, because a value that
is not known must not look like one.
"""

import re
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import PurePosixPath

from apportion.agent.devices.generic import sysfs
from apportion.agent.devices.generic.described import Attribute, Capacity, Described, SourceText
from apportion.agent.devices.generic.fields import LONGEST_NUMBER, LONGEST_TEXT
from apportion.agent.devices.generic.sysfs import FoundDevice
from apportion.agent.devices.hostfs import HostFiles
from apportion.dra.device import Scalar
from apportion.dra.semver import Semver
from apportion.errors import BrokenInput

_TRUE = frozenset({"1", "y", "yes", "true", "on", "enabled"})
_FALSE = frozenset({"0", "n", "no", "false", "off", "disabled"})
_LONGEST_SERIAL = LONGEST_TEXT - len("ABCDEFGHIJKLMNOP-")
"""Characters: a UUID is an attribute, and begins with the type."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a device's files say now."""

    attributes: dict[str, Scalar] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """What is left out, and why."""


def facts(host: HostFiles, device: FoundDevice, kind: Described) -> Facts:
    """Read attributes and capacities."""
    found = Facts()
    unread: list[str] = []
    for name, attribute in kind.attributes.items():
        try:
            found.attributes[name] = _attribute(host, device.folder, attribute)
        except BrokenInput as error:
            unread.append(f"attribute {name}: {error}")
    for name, capacity in kind.capacity.items():
        try:
            found.capacity[name] = _capacity(host, device.folder, capacity)
        except BrokenInput as error:
            unread.append(f"capacity {name}: {error}")
    return Facts(found.attributes, found.capacity, tuple(unread))


def serial(host: HostFiles, device: FoundDevice, wanted: SourceText) -> str:
    """Return what the device's own file says that it is. Raises BrokenInput when it says nothing that tells devices apart."""
    said = sysfs.searched(host, device.folder, wanted.file, wanted.pattern)
    if not re.fullmatch(r"[!-~]+", said) or len(said) > _LONGEST_SERIAL:
        raise BrokenInput(f"{device.folder / wanted.file}: {said[:40]!r} is no serial number")
    # A card that was never given one says so in zeros.
    if not said.strip("0:-."):
        raise BrokenInput(f"{device.folder / wanted.file}: {said} is no card's serial number")
    return said


def _attribute(host: HostFiles, folder: PurePosixPath, wanted: Attribute) -> Scalar:
    if wanted.file is None:
        fixed: Scalar = Semver.parse(wanted.value) if wanted.type == "version" else wanted.value
        return fixed
    said = sysfs.searched(host, folder, wanted.file, wanted.pattern)
    match wanted.type:
        case "int":
            number = _number(said, wanted.scale)
            if not -LONGEST_NUMBER <= number < LONGEST_NUMBER:
                raise BrokenInput(f"{number} does not fit into 64 bits")
            return number
        case "bool":
            if said.lower() not in _TRUE | _FALSE:
                raise BrokenInput(f"{said[:40]!r} is neither true nor false")
            return said.lower() in _TRUE
        case "version":
            return Semver.parse(said)
        case _:
            if not said or len(said.encode()) > LONGEST_TEXT:
                raise BrokenInput(f"{said[:40]!r} is empty, or longer than {LONGEST_TEXT} bytes")
            return said


def _capacity(host: HostFiles, folder: PurePosixPath, wanted: Capacity) -> int:
    if wanted.file is None:
        return int(wanted.value)
    number = _number(sysfs.searched(host, folder, wanted.file, wanted.pattern), wanted.scale)
    if number < 0:
        raise BrokenInput(f"{number} is no amount")
    return number


def _number(text: str, scale: float) -> int:
    try:
        number = int(text, 16) if text.lower().startswith("0x") else int(text)
    except ValueError:
        raise BrokenInput(f"{text[:40]!r} is no whole number") from None
    # Exact: a float has 53 bits.
    return int(number * Fraction(str(scale)))
