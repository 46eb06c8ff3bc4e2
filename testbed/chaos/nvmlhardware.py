"""Fake GPUs of a chaos node, behind the fake libnvidia-ml.so, with a second driver beside it that sometimes does not answer.

In: a folder. Out: `FakeHardware`; what the cards do is in the state files of the fake drivers.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Final

from testbed.chaos.fakehardware import MODELS, LivePartition, Placement
from testbed.fakes.dcmi import host as dcmi_host
from testbed.fakes.dcmi.library import FakeDcmi
from testbed.fakes.nvml.host import lay_out
from testbed.fakes.nvml.library import FakeNvml

_LATE_SECONDS: Final = 6.0
"""More than an agent waits for one answer (`Hardware`)."""
_INNER_ERROR: Final = -8005
"""INNER_ERROR, which every function of DCMI may answer."""
_PROGRAM: Final = 4711
"""Process id that every program in a container has."""


class NvmlHardware:
    """GPUs behind the fake libnvidia-ml.so.

    With `second_driver` the node has an NPU beside them, which nobody uses and whose driver may fail.
    """

    def __init__(self, folder: Path, *, models: Sequence[str] = MODELS, second_driver: bool = False) -> None:
        self.fake = FakeNvml.create(folder / "nvml", models)
        self.fake.set_mode(1, on=True)
        self.root = root = lay_out(self.fake, folder / "root")
        self.environment: Mapping[str, str] = self.fake.environment
        self._npu: FakeDcmi | None = None
        backend = "nvml,rdma"
        if second_driver:
            self._npu = FakeDcmi.create(folder / "dcmi", ["910B4"])
            dcmi_host.lay_out(self._npu, root)
            backend = "nvml,ascend,rdma"
            own, other = self.fake.environment, self._npu.environment
            path = os.pathsep.join(each["LD_LIBRARY_PATH"] for each in (own, other))
            self.environment = {**own, **other, "LD_LIBRARY_PATH": path}
        self.arguments: Sequence[str] = ("--backend", backend, "--host-root", str(root))

    def partitions(self) -> tuple[LivePartition, ...]:
        """Return the partitions that exist now."""
        return tuple(
            LivePartition(
                f"gpu-{row.gpu}", row.profile, row.start, row.size, row.compute[0].uuid if row.compute else ""
            )
            for row in self.fake.instances()
        )

    def whole(self, card: str) -> bool:
        """Return whether the card's MIG mode is off."""
        return not self.fake.mode(int(card.split("-")[1]))[0]

    def reboot(self) -> None:
        """Reboot the node."""
        self.fake.reboot()

    def create_foreign(self, placement: Placement) -> str:
        """Create a GPU instance and its compute instance as nvidia-smi does; returns the UUID."""
        uuid = f"MIG-made-by-hand-at-{placement.card}-{placement.start}"
        with self.fake.changing() as state:
            gpu = state.gpu[int(placement.card.split("-")[1])]
            row = next(row for row in gpu.instance if not row.used)
            # A high id, which the fake driver never gives to the agent's instances.
            row.id, row.profile, row.start, row.size = 13, placement.number, placement.start, placement.size
            row.serial = state.next_serial
            compute = row.computes[0]
            compute.used, compute.id, compute.slices, compute.start = 1, 0, placement.slices, 0
            compute.mig_index, compute.uuid, compute.serial = 6, uuid.encode(), state.next_serial + 1
            state.next_serial += 2
            row.used = 1
        return uuid

    def set_in_use(self, uuid: str, *, used: bool) -> None:
        """Let a program open a partition, or close it."""
        with suppress(KeyError):
            self.fake.occupy(uuid, _PROGRAM if used else 0)

    def minors(self) -> Mapping[str, int]:
        """Return the minor of the GPU file behind each card and partition now."""
        state = self.fake.read()
        gpus = {gpu.uuid.decode(): int(gpu.minor) for gpu in state.gpu[: state.gpus]}
        parts = {
            compute.uuid: int(state.gpu[row.gpu].minor)
            for row in self.fake.instances()
            for compute in row.compute
        }
        return gpus | parts

    def rebind(self) -> None:
        """Give the first GPU the minor that none has; when its MIG mode is switched, it gets the lowest free one."""
        with self.fake.changing() as state:
            one, two = state.gpu[0], state.gpu[1]
            (one.minor,) = {0, 1, 2} - {one.minor, two.minor}

    def reorder(self) -> None:
        """Swap the slots of both GPUs; a name stays with its UUID."""
        with self.fake.changing() as state:
            one, two = state.gpu[0], state.gpu[1]
            one.bus, two.bus = two.bus, one.bus

    def hang(self) -> None:
        """Let the second GPU answer late, once."""
        self.fake.delay("nvmlDeviceGetMemoryInfo", _LATE_SECONDS, times=1, card=1)

    def change_second_driver(self, random: Random) -> str:
        """Let the NPU's driver be well, fail in what is asked at discovery or later, or be gone."""
        if self._npu is None:
            return ""
        state = random.choice(("well", "failing at discovery", "failing in health", "unloaded"))
        self._npu.drop_rules()
        self._npu.unload(loaded=state != "unloaded")
        if state == "failing at discovery":
            self._npu.fail("dcmi_get_card_list", _INNER_ERROR, times=-1)
        elif state == "failing in health":
            self._npu.fail("dcmi_get_device_health", _INNER_ERROR, times=-1)
        return state

    def kill_in_call(self, call: str, *, after: bool) -> None:
        """End the next process that makes this driver call."""
        self.fake.kill(call, after=after)

    def clear_faults(self) -> None:
        """Remove the faults that did not happen."""
        self.fake.heal()
