"""The host of a fake NVML: the kernel's files in /proc and /sys.

In: a fake, a folder. Out: a tree that stands for `/`: where GPUs are plugged in, the majors of NVIDIA's drivers, the minors
of every possible MIG capability. Numbering as the driver does it: config, monitor, then GPU by GPU.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

from testbed.fakes.nvml.library import FakeNvml
from testbed.fakes.pci import GPU, NVIDIA, plug

CAPABILITIES_MAJOR = 237
UVM_MAJOR = 508
NVIDIA_MAJOR = 195
IMEX_MAJOR = 239
"""Of the channels' name in /proc/devices; name: DRV cmd/compute-domain-kubelet-plugin/nvlib.go:42, that it is always there: none."""
_INSTANCE_IDS = range(15)
_COMPUTE_IDS = range(8)


HOST_PIDS = "pid:[4026531836]"
"""The host's own PID namespace: its number is PROC_PID_INIT_INO (linux/proc_ns.h)."""


def lay_out(fake: FakeNvml, root: Path) -> Path:
    """Make the tree and return its root; two GPUs share each PCIe root."""
    state = fake.read()
    devices = root / "proc" / "devices"
    devices.parent.mkdir(parents=True)
    devices.write_text(
        "Character devices:\n  1 mem\n"
        f"{NVIDIA_MAJOR} nvidia\n{CAPABILITIES_MAJOR} nvidia-caps\n{UVM_MAJOR} nvidia-uvm\n"
        f"{IMEX_MAJOR} nvidia-caps-imex-channels\n"
        "\nBlock devices:\n  8 sd\n",
        encoding="ascii",
    )
    namespace = root / "proc" / "self" / "ns" / "pid"
    namespace.parent.mkdir(parents=True)
    namespace.symlink_to(HOST_PIDS)
    minors = root / "proc" / "driver" / "nvidia-caps" / "mig-minors"
    minors.parent.mkdir(parents=True)
    numbers = count(1)
    minors.write_text(
        "".join(f"{name} {next(numbers)}\n" for name in _capabilities(state.gpus)), encoding="ascii"
    )
    for index, gpu in enumerate(state.gpu[: state.gpus]):
        plug(
            root,
            gpu.bus.decode(),
            f"{0x10 * (1 + index // 2):02x}",
            gpu.numa,
            vendor=NVIDIA,
            device_class=GPU,
        )
    return root


def contain(fake: FakeNvml, root: Path) -> None:
    """Put the callers into a PID namespace of their own, as a pod without `hostPID` is: they see no process of others."""
    with fake.changing() as state:
        state.contained = 1
    namespace = root / "proc" / "self" / "ns" / "pid"
    namespace.unlink()
    namespace.symlink_to("pid:[4026532001]")


def _capabilities(gpus: int) -> Iterator[str]:
    yield from ("config", "monitor")
    for gpu in range(gpus):
        for instance in _INSTANCE_IDS:
            yield f"gpu{gpu}/gi{instance}/access"
            yield from (f"gpu{gpu}/gi{instance}/ci{compute}/access" for compute in _COMPUTE_IDS)
