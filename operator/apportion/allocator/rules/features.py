"""Features: the feature gates of Dynamic Resource Allocation that are on in the cluster.

In: gates by upstream's names, or none. Out: one frozen value that the allocator reads.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Features:
    """One switch per gate. The defaults are those of Kubernetes 1.37."""

    admin_access: bool = True
    """DRAAdminAccess: requests with `adminAccess`, which occupy nothing."""
    prioritized_list: bool = True
    """DRAPrioritizedList: `firstAvailable`."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices: shared counters, per-device node selection."""
    device_taints: bool = True
    """DRADeviceTaints."""
    device_binding_and_status: bool = True
    """DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus."""
    consumable_capacity: bool = True
    """DRAConsumableCapacity: `allowMultipleAllocations` and shares of a device; also `distinctAttribute`."""
    fractional_capacity_range: bool = True
    """DRAFractionalCapacityRange: request policies compute in thousandths."""
    list_type_attributes: bool = True
    """DRAListTypeAttributes. Always on: where the cluster's gate is off, no slice has lists."""
    compatibility_groups: bool = True
    """DRADeviceCompatibilityGroups. Always on: where the cluster's gate is off, no slice has groups."""

    @classmethod
    def of(cls, version: tuple[int, int]) -> "Features":
        """Return those that are on by default in this version of Kubernetes, from 1.36 on."""
        return cls(fractional_capacity_range=version >= (1, 37))

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> "Features":
        """Read switches by their upstream names (`ConsumableCapacity`); those not named keep their default."""
        return cls(**{name: bool(raw[title]) for name, title in TITLES.items() if title in raw})


TITLES = {
    field.name: "".join(word.capitalize() for word in field.name.split("_")) for field in fields(Features)
}
"""Upstream's name (`structured.Features`) by field."""

DEFAULT_FEATURES = Features()
