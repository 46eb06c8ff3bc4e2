"""Which optional parts of Dynamic Resource Allocation the cluster has on (Kubernetes feature gates).

In: the gates of the cluster, or nothing. Out: a frozen set of switches that the allocator honours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class Features:
    """One switch per gate. The defaults are those of Kubernetes 1.37."""

    admin_access: bool = True
    """DRAAdminAccess: requests that look at devices without owning them."""
    prioritized_list: bool = True
    """DRAPrioritizedList: `firstAvailable`."""
    partitionable_devices: bool = True
    """DRAPartitionableDevices: shared counters, per-device node selection."""
    device_taints: bool = True
    """DRADeviceTaints."""
    device_binding_and_status: bool = True
    """DRADeviceBindingConditions together with DRAResourceClaimDeviceStatus."""
    consumable_capacity: bool = True
    """DRAConsumableCapacity: shares of a device; also `distinctAttribute`."""
    fractional_capacity_range: bool = True
    """DRAFractionalCapacityRange: ranges of capacity in thousandths."""
    list_type_attributes: bool = False
    """DRAListTypeAttributes."""
    compatibility_groups: bool = False
    """DRADeviceCompatibilityGroups. Not implemented: pools that use it are passed over."""
    derived_attributes: bool = False
    """DRADerivedAttributes. Not implemented: derived attributes are absent."""
    optional_node_operations: bool = False
    """DRAOptionalNodeOperations."""

    @classmethod
    def from_json(cls, raw: Mapping[str, object]) -> "Features":
        """Read switches by their upstream names (`ConsumableCapacity`); those not named keep their default."""
        return cls(**{name: bool(raw[title]) for name, title in TITLES.items() if title in raw})


TITLES = {
    field.name: "".join(word.capitalize() for word in field.name.split("_")) for field in fields(Features)
}
"""Switch -> the name that upstream's code uses."""

DEFAULT_FEATURES = Features()
