"""A ladder: levels of closeness, the closest first, as a value.

In: attribute names. Out: what two devices must share to be close on a level. A preference, never a must: a ladder
changes which devices are chosen, not whether a demand can be served.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rung:
    """One level: devices with the same value are close."""

    attribute: str
    """Qualified name, for every driver that is not named below."""
    drivers: frozenset[str] = frozenset()
    """Drivers whose devices the level is about; empty: all."""
    per_driver: tuple[tuple[str, str], ...] = ()
    """(driver, attribute): drivers that publish the same thing under names of their own."""
    apart: bool = False
    """Values of different attributes are never the same thing, although they may read alike."""
    fill: bool = False
    """Devices come out of the value that has the fewest left, so that the others stay whole."""
    order: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """With `fill`, exceptions by how many are taken: the counts of free devices in the order of preference."""
    even: bool = False
    """A set that no value can hold is dealt out evenly."""

    def name_for(self, driver: str) -> str | None:
        """Return the attribute to look at on devices of a driver; None: the level is not about them."""
        for own, attribute in self.per_driver:
            if own == driver:
                return attribute
        return self.attribute if not self.drivers or driver in self.drivers else None

    def rank(self, taken: int, free: int) -> int:
        """Rate taking so many devices from a value that has so many free: the least is best."""
        for count, frees in self.order:
            if count == taken:
                return frees.index(free) if free in frees else len(frees) + free
        return free

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it reads."""
        return tuple(dict.fromkeys((self.attribute, *(attribute for _, attribute in self.per_driver))))


@dataclass(frozen=True, slots=True)
class Ladder:
    """Levels in order, and how far they count."""

    rungs: tuple[Rung, ...]
    across: bool = True
    """Whether closeness chooses among nodes too, before the strategy does."""

    @property
    def mixed(self) -> frozenset[str]:
        """Attributes whose values are compared with those of another attribute."""
        return frozenset(
            name for rung in self.rungs if not rung.apart and len(rung.names) > 1 for name in rung.names
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes that it reads."""
        return tuple(name for rung in self.rungs for name in rung.names)

    def matters(self, devices: int) -> bool:
        """Say whether it may change a choice of that many devices."""
        return devices > 1 or any(rung.fill for rung in self.rungs)


_GPU, _NPU, _NVIDIA = "gpu.apportion.dev", "npu.apportion.dev", "gpu.nvidia.com"
_STANDARD = "resource.kubernetes.io"


def _own(names: Mapping[str, str], default: str) -> Rung:
    """Return a level that every vendor calls differently."""
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
"""What holds where a policy names no ladder: same card, same NVLink or HCCS group, PCIe root, NUMA node. (No standard
attribute tells the socket; policies name the one that their drivers publish.)"""
