"""Ladder: levels of closeness between devices, the closest first (`AllocationPolicy.spec.ladder`).

Per level it names the attribute that two devices must share to be close. A ladder is a preference: it changes
which devices are chosen, never whether a demand can be served.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True, slots=True)
class Rung:
    """One level: devices with equal values of an attribute are close."""

    attribute: str
    """Qualified name, for drivers that `per_driver` does not name."""
    drivers: frozenset[str] = frozenset()
    """Drivers with devices on this level, in addition to `per_driver`; empty: all."""
    per_driver: tuple[tuple[str, str], ...] = ()
    """(driver, attribute): drivers that publish the same property under another name."""
    apart: bool = False
    """Whether equal values of different attributes mean different things."""
    fill: bool = False
    """Whether devices of the value with the fewest free ones are preferred, so that other values stay whole."""
    order: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """With `fill`, exceptions: for a number of devices taken, the counts of free devices in order of preference."""
    even: bool = False
    """Whether a set too large for one value is divided evenly over several."""

    def name_for(self, driver: str) -> str | None:
        """Return the attribute for devices of a driver; None: they are not on this level."""
        for own, attribute in self.per_driver:
            if own == driver:
                return attribute
        return self.attribute if not self.drivers or driver in self.drivers else None

    def rank(self, taken: int, free: int) -> int:
        """Rate taking `taken` devices from a value with `free` free ones; the smallest is best."""
        for count, frees in self.order:
            if count == taken:
                return frees.index(free) if free in frees else len(frees) + free
        return free

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that are read."""
        return tuple(dict.fromkeys((self.attribute, *(attribute for _, attribute in self.per_driver))))


@dataclass(frozen=True)
class Ladder:
    """Levels, the closest first, and whether they compare nodes."""

    rungs: tuple[Rung, ...]
    across: bool = True
    """Whether closeness compares nodes too, before the strategy (`ladderScope: Cluster`)."""

    @cached_property
    def mixed(self) -> frozenset[str]:
        """Attributes whose values are compared with values of another attribute."""
        return frozenset(
            name for rung in self.rungs if not rung.apart and len(rung.names) > 1 for name in rung.names
        )

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The attributes that are read."""
        return tuple(name for rung in self.rungs for name in rung.names)

    def matters(self, devices: int) -> bool:
        """Say whether the ladder can change the choice of so many devices."""
        return devices > 1 or any(rung.fill for rung in self.rungs)


_GPU, _NPU, _NVIDIA = "gpu.apportion.dev", "npu.apportion.dev", "gpu.nvidia.com"
_STANDARD = "resource.kubernetes.io"


def _own(names: Mapping[str, str], default: str) -> Rung:
    """Return a level with an attribute of its own for each driver."""
    pairs = tuple((driver, f"{driver}/{name}") for driver, name in names.items())
    return Rung(f"{_GPU}/{default}", drivers=frozenset([_GPU]), per_driver=pairs, apart=True)


DEFAULT = Ladder(
    (
        _own({_GPU: "parentUUID", _NVIDIA: "parentUUID", _NPU: "cardId"}, "parentUUID"),
        _own({_NVIDIA: "nvlinkGroup", _NPU: "hccsGroup"}, "nvlinkGroup"),
        Rung(f"{_STANDARD}/pcieRoot"),
        Rung(f"{_STANDARD}/numaNode"),
    )
)
"""Ladder of policies that name none: same card, same NVLink or HCCS group, PCIe root, NUMA node. There is no standard
attribute for the CPU socket; a policy can name the one of its drivers."""
