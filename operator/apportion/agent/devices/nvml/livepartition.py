"""A GPU instance as the partition that it is for everybody else.

In: a GPU, one of its instances, the host's device files. Out: a live partition with what a container needs for it.
"""

from collections.abc import Iterable

from apportion.agent.devices.nvml.cards import Gpu
from apportion.agent.devices.nvml.devicefiles import DeviceFiles
from apportion.agent.devices.nvml.displayfiles import draws
from apportion.agent.devices.nvml.instances import Instance
from apportion.agent.devices.values import Edits, LivePartition, Placement


def _any(answers: Iterable[bool | None]) -> bool | None:
    """Say whether one is true; None: none is, as far as is known."""
    found = set(answers)
    return True if True in found else None if None in found else False


def live_partition(gpu: Gpu, instance: Instance, files: DeviceFiles, minor: int) -> LivePartition:
    """Return a GPU instance as a partition; `minor` is the GPU's now. One without a compute instance is not complete."""
    first = instance.computes[0] if instance.computes else None
    ids = {"gpuInstance": str(instance.id)}
    edits = Edits()
    if first is not None:
        ids["computeInstance"] = str(first.id)
        display = gpu.card.location.pci_bus_id if draws(instance.mig.profile.name) else ""
        edits = files.partition(minor, instance.id, first.id, display_of=display)
    return LivePartition(
        card=gpu.name,
        profile=instance.mig.profile.name,
        placement=Placement(instance.placement.start, instance.placement.size),
        uuid=first.uuid if first is not None else "",
        instance=ids,
        complete=first is not None,
        in_use=_any(compute.in_use for compute in instance.computes),
        edits=edits,
    )
