"""is_of_class(): whether a device belongs to a DeviceClass, as far as its selectors can be evaluated.

In: the snapshot, a device, the name of a class. Out: yes or no.
"""

from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import Device


def is_of_class(snapshot: Snapshot, device: Device, name: str) -> bool:
    """Say whether a device belongs to a DeviceClass; no, where a selector of the class fails or would cost too much."""
    found = snapshot.state.classes.get(name)
    return found is not None and all(
        snapshot.state.selectors(text).known(device) is True for text in found.selectors
    )
