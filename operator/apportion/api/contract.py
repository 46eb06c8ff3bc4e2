"""The strings on which operator, agent, admission policies and manifests agree.

A change here is a change of the interface: objects that were written before keep the old strings.
"""

from typing import Final

GATE: Final = "apportion.dev/allocation"
"""Scheduling gate that admission adds to pods; annotation of claims that are allocated without a pod."""
ALLOCATION_FINALIZER: Final = "apportion.dev/allocation"
"""On claims that are allocated without a pod, so that controller-manager does not deallocate them between pods."""
AGENT_FINALIZER: Final = "apportion.dev/agent"
"""Keeps a Partition until the agent has removed it from the hardware; the agent removes the finalizer."""
GUARD: Final = "apportion.dev/guard"
"""Key of the taint on every device, which excludes kube-scheduler's own allocator; the operator ignores it."""
HELD: Final = "apportion.dev/held"
"""Key of the taint on a device that is still prepared for a claim without it; the value is the claim's UID."""
SHARED: Final = "apportion.dev/shared"
"""Key of the taint on what a shared GPU could be cut into: it is not cut while it is shared."""
MANAGED: Final = "apportion.dev/managed"
"""Label of managed DeviceClasses, and of namespaces in which admission adds the gate."""
EXTENDED_RESOURCE: Final = "apportion.dev/extended-resource"
"""Label of ResourceClaimTemplates that the operator made for pods that asked for an extended resource."""
LAYOUT_LABEL: Final = "apportion.dev/layout"
"""Label of DeviceClasses that a PartitionLayout made; its value is the layout's name."""
STATIC_SUFFIX: Final = "-static"
"""Suffix of the device of a layout's partition, which is another one than the dynamic device of that placement."""
NETWORK_DEVICE: Final = "networkDevice"
"""Attribute of a NIC (bool): whether its network interface can be moved into a pod; false while the node itself needs it."""
VIRTUAL_FUNCTION: Final = "virtualFunction"
"""Attribute of a NIC (bool): whether it is a virtual function of another one."""
COUNTER_SET_SUFFIX: Final = "-counter-set"
"""Suffix of the name of a card's counter set, after the card's name."""
