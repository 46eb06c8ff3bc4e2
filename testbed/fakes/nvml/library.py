"""The fake NVML: builds the library, makes state files, reads them and injects faults.

In: models and a folder. Out: a `FakeNvml`, whose `environment` makes any process use it instead of a driver. It reads
and writes the state file itself, so tests check the product against it. What the library does is in the C files of this folder.
"""

import ctypes
import fcntl
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from testbed.fakes.driver import FakeDriver
from testbed.fakes.nvml import layout
from testbed.fakes.nvml.models import fill
from testbed.fakes.statefile.layout import Header

PASSTHROUGH = 1
"""NVML_GPU_VIRTUALIZATION_MODE_PASSTHROUGH: a virtual machine has the whole GPU."""
_HOPPER = 9
_XID = 8
_RECOVERY_CHANGED = 154
_CONTAINED = 94
_ANY = 0xFFFFFFFF
_NVLINK_TO_GPU, _NVLINK_TO_SWITCH = 0, 2


@dataclass(frozen=True, slots=True)
class ComputeInstance:
    """A compute instance as it is on the fake hardware."""

    id: int
    slices: int
    uuid: str
    pids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GpuInstance:
    """A GPU instance as it is on the fake hardware; one without compute instances is half made."""

    gpu: int
    id: int
    profile: str
    profile_id: int
    start: int
    size: int
    compute: tuple[ComputeInstance, ...]


class FakeNvml(FakeDriver[layout.State]):
    """One fake node's driver: a state file, shared by every process that has `environment`."""

    variable = layout.VARIABLE
    layout = layout.State
    sources = Path(__file__).parent
    soname = "libnvidia-ml.so.1"

    @classmethod
    def create(
        cls,
        path: Path,
        models: Sequence[str],
        *,
        driver: str = "570.86.15",
        cuda: int = 12080,
        mig: bool = False,
        versioned_anytime: bool = False,
        virtualization: int = 0,
    ) -> "FakeNvml":
        """Make a state file with one GPU of each model named; `mig`: MIG mode is already on everywhere.

        `versioned_anytime`: profile queries with a version are answered while MIG mode is off, too. `virtualization`: NVML_GPU_VIRTUALIZATION_MODE_*.
        """
        state = layout.State(
            header=Header(layout.MAGIC, layout.LAYOUT, ctypes.sizeof(layout.State), 1),
            gpus=len(models),
            cuda=cuda,
            versioned_anytime=int(versioned_anytime),
            next_serial=1,
            next_event=1,
            driver=driver.encode(),
        )
        for index, model in enumerate(models):
            gpu = state.gpu[index]
            fill(gpu, model)
            # The minor is not the index: code that takes one for the other fails.
            gpu.minor = len(models) - 1 - index
            gpu.bus = f"0000:{0x18 + index:02x}:00.0".encode()
            gpu.uuid = f"GPU-{uuid.uuid5(uuid.NAMESPACE_OID, f'{path}/{index}')}".encode()
            gpu.numa = index * 2 // len(models)
            gpu.mode = gpu.pending = int(mig)
            gpu.virtualization = virtualization
        return cls._write(path, state)

    def instances(self) -> tuple[GpuInstance, ...]:
        """List all GPU instances, half-made ones included, in the order of GPUs and places."""
        state = self.read()
        found = [
            _instance(index, gpu, row)
            for index, gpu in enumerate(state.gpu[: state.gpus])
            for row in gpu.instance
            if row.used
        ]
        return tuple(sorted(found, key=lambda row: (row.gpu, row.start)))

    def mode(self, gpu: int) -> tuple[bool, bool]:
        """Return current and pending MIG mode."""
        row = self.read().gpu[gpu]
        return bool(row.mode), bool(row.pending)

    def heal(self) -> None:
        """Remove all faults, and bring lost GPUs back."""
        self.drop_rules()
        with self.changing() as state:
            for gpu in state.gpu:
                gpu.lost = 0

    def lose(self, gpu: int) -> None:
        """Let a GPU fall off the bus: every call on it fails with GPU_IS_LOST."""
        with self.changing() as state:
            state.gpu[gpu].lost = 1

    def take(self, gpu: int) -> None:
        """Take a GPU from the driver, as binding it to VFIO does: it is in no list, and those behind it get other indices."""
        with self.changing() as state:
            state.gpu[gpu].gone = 1

    def give_back(self, gpu: int, *, bus: str = "") -> None:
        """Give a GPU back to the driver, in another slot if `bus` is given: indices follow the PCI addresses."""
        with self.changing() as state:
            state.gpu[gpu].gone = 0
            if bus:
                state.gpu[gpu].bus = bus.encode()

    def xid(self, gpu: int, number: int, *, instance: int = _ANY, compute: int = _ANY) -> None:
        """Report an XID error to all event sets."""
        with self.changing() as state:
            _report(state, gpu, number, instance, compute)

    def contain(self, gpu: int, errors: int, *, instance: int, compute: int) -> None:
        """Contain a memory error to an instance: the GPU's counter of uncorrected errors, and the event of it, at once."""
        with self.changing() as state:
            state.gpu[gpu].ecc = errors
            _report(state, gpu, _CONTAINED, instance, compute)

    def recover(self, gpu: int, action: int) -> None:
        """Let the driver want another recovery of a GPU (NVML_GPU_RECOVERY_ACTION_*), and say so."""
        with self.changing() as state:
            state.gpu[gpu].recovery = action
        self.xid(gpu, _RECOVERY_CHANGED)

    def ecc(self, gpu: int, uncorrected: int) -> None:
        """Set the number of uncorrected ECC errors since the last reset."""
        with self.changing() as state:
            state.gpu[gpu].ecc = uncorrected

    def occupy(self, mig_uuid: str, pid: int) -> None:
        """Let a process use a MIG device; pid 0: no process any more."""
        with self.changing() as state:
            for gpu in state.gpu:
                for instance in gpu.instance:
                    for compute in instance.computes:
                        if instance.used and compute.used and compute.uuid.decode() == mig_uuid:
                            compute.pids[0] = pid
                            return
        raise KeyError(mig_uuid)

    def occupy_gpu(self, gpu: int, pid: int) -> None:
        """Let a process use a whole GPU; pid 0: no process any more."""
        with self.changing() as state:
            state.gpu[gpu].pids[0] = pid

    def nvlink(self, groups: Sequence[Sequence[int]]) -> None:
        """Connect the GPUs of each group with each other directly, one link per pair."""
        with self.changing() as state:
            for group in groups:
                for here in group:
                    for link, there in enumerate(other for other in group if other != here):
                        state.gpu[here].link[link] = layout.Link(1, _NVLINK_TO_GPU, state.gpu[there].bus)

    def nvswitch(self, gpus: Sequence[int]) -> None:
        """Connect GPUs with an NVSwitch each to each, as in HGX boards."""
        with self.changing() as state:
            for index in gpus:
                state.gpu[index].link[0] = layout.Link(1, _NVLINK_TO_SWITCH, b"0000:c1:00.0")

    def held(self) -> bool:
        """Say whether a process has a session, which keeps the kernel module loaded."""
        with self.path.with_name(f"{self.path.name}.clients").open("a") as clients:
            try:
                fcntl.flock(clients, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def rename(self, names: Mapping[int, str]) -> None:
        """Give profiles, by their ids, other names, as another version of the driver does (GB200: 1g.24gb, later 1g.23gb)."""
        with self.changing() as state:
            for gpu in state.gpu[: state.gpus]:
                for profile in gpu.profile[: gpu.profiles]:
                    profile.name = names.get(profile.id, profile.name.decode()).encode()

    def exchange(self, version: str) -> None:
        """Put a driver of another version in the place of this one, as k8s-driver-manager and the driver's container do.

        A process that has the old library loaded finds that it does not fit the module. Raises RuntimeError while a process has a session.
        """
        if self.held():
            raise RuntimeError("the kernel module is in use: a process has a session")
        self.reboot()
        with self.changing() as state:
            state.driver = version.encode()

    def fabric(self, gpu: int, state: int, *, status: int = 0, clique: int = 0, cluster: str = "") -> None:
        """Let a GPU be in this state of joining the fabric (NVML_GPU_FABRIC_STATE_*); `cluster` is a UUID, "" for a fabric of one node."""
        with self.changing() as everything:
            row = everything.gpu[gpu]
            row.fabric_state, row.fabric_status, row.clique = state, status, clique
            row.cluster[:] = uuid.UUID(cluster).bytes if cluster else bytes(16)

    def set_mode(self, gpu: int, *, on: bool) -> None:
        """Set the MIG mode by hand, as after a reset."""
        with self.changing() as state:
            state.gpu[gpu].mode = state.gpu[gpu].pending = int(on)

    def rebind(self, first: int, second: int) -> None:
        """Bind two GPUs anew in the other order, as after a reload of the driver: each gets the other's minor."""
        with self.changing() as state:
            one, two = state.gpu[first], state.gpu[second]
            one.minor, two.minor = two.minor, one.minor

    def minor(self, uuid: str) -> int:
        """Return the minor that a GPU has now."""
        return next(int(gpu.minor) for gpu in self.read().gpu if gpu.uuid.decode() == uuid)

    def shared(self, gpu: int) -> tuple[int, int]:
        """Return compute mode (nvmlComputeMode_t) and time slice (as nvidia-smi compute-policy has it)."""
        row = self.read().gpu[gpu]
        return int(row.compute_mode), int(row.time_slice)

    def slice(self, gpu: int, steps: int) -> None:
        """Set a time slice, as a person does by nvidia-smi."""
        with self.changing() as state:
            state.gpu[gpu].time_slice = steps

    def reset(self, gpu: int) -> None:
        """Reset a GPU: instances and errors go, a pending MIG mode becomes current."""
        with self.changing() as state:
            _reset(state.gpu[gpu])

    def reboot(self) -> None:
        """Reboot the node: every GPU is reset, and MIG mode survives on Ampere only (its status is in the InfoROM)."""
        with self.changing() as state:
            for gpu in state.gpu[: state.gpus]:
                _reset(gpu)
                if gpu.architecture >= _HOPPER:
                    gpu.mode = gpu.pending = 0


def _report(state: layout.State, gpu: int, number: int, instance: int, compute: int) -> None:
    sequence = state.next_event
    state.next_event = sequence + 1
    state.event[sequence % layout.EVENTS] = layout.Event(
        sequence=sequence, type=_XID, data=number, gpu=gpu, instance=instance, compute=compute
    )


def _instance(index: int, gpu: layout.Gpu, row: layout.Instance) -> GpuInstance:
    name = next(profile.name.decode() for profile in gpu.profile[: gpu.profiles] if profile.id == row.profile)
    compute = tuple(
        ComputeInstance(one.id, one.slices, one.uuid.decode(), tuple(pid for pid in one.pids if pid))
        for one in row.computes
        if one.used
    )
    return GpuInstance(index, row.id, name, row.profile, row.start, row.size, compute)


def _reset(gpu: layout.Gpu) -> None:
    gpu.mode = gpu.pending
    # Neither outlives the driver's state (nvml.h at nvmlDeviceSetComputeMode: not across reboots). source: none, as to a time slice.
    gpu.compute_mode = gpu.time_slice = 0
    gpu.lost = 0
    gpu.ecc = 0
    for row in gpu.instance:
        row.used = 0
    for index in range(layout.PROCESSES):
        gpu.pids[index] = 0
