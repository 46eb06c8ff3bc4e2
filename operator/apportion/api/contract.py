"""The strings on which operator, agent, admission policies and manifests agree.

A change here is a change of the interface: objects that were written before keep the old strings.
"""

from typing import Final

GATE: Final = "apportion.dev/allocation"
"""Scheduling gate that admission adds to pods; annotation of claims that are allocated without a pod."""
ALLOCATION_FINALIZER: Final = "apportion.dev/allocation"
"""On claims that are allocated without a pod; controller-manager must not deallocate these between pods."""
AGENT_FINALIZER: Final = "apportion.dev/agent"
"""Keeps a Partition until the agent has removed it from the hardware; only the agent takes it away."""
GUARD: Final = "apportion.dev/guard"
"""Key of the taint on every device: it keeps kube-scheduler's own allocator off, and is no obstacle to the operator."""
HELD: Final = "apportion.dev/held"
"""Key of the taint on a device that is prepared for a claim that has lost it; its value is the claim's UID."""
MANAGED: Final = "apportion.dev/managed"
"""Label of managed DeviceClasses, and of namespaces in which admission adds the gate."""
LAYOUT_LABEL: Final = "apportion.dev/layout"
"""Label of DeviceClasses that a PartitionLayout made; its value is the layout's name."""
STATIC_SUFFIX: Final = "-static"
"""Ends the name of a layout's partition: a device of its own beside the dynamic one of that placement."""
COUNTER_SET_SUFFIX: Final = "-counter-set"
"""Ends the name of a card's counter set; the card's name stands before it."""
