"""A host with NVIDIA's programs and a systemd, around a node with fake GPUs; and what runs on it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from testbed.api import Json
from testbed.eventually import eventually
from testbed.fakes.nvml import programs
from testbed.fakes.nvml.library import FakeNvml
from tests.agent.places import GPU
from tests.agent.simulatednode import SimulatedNode

VERSION = "570.86.15"


def gpu_config(*requests: str, kind: str = "GpuConfig", **sharing: object) -> Json:
    """Return a `config` entry of an allocation."""
    body = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": kind, "sharing": sharing}
    return {
        "source": "FromClaim",
        "requests": [*requests],
        "opaque": {"driver": GPU, "parameters": body},
    }


def mps(*requests: str, kind: str = "GpuConfig", **terms: object) -> Json:
    """Return an entry that asks for MPS."""
    return gpu_config(*requests, kind=kind, strategy="MPS", mpsConfig=terms)


def sliced(interval: str, *requests: str) -> Json:
    """Return an entry that asks for a time slice."""
    return gpu_config(*requests, strategy="TimeSlicing", timeSlicingConfig={"interval": interval})


class SharingHost:
    """The host of one node: `fake` are its GPUs."""

    def __init__(self, node: SimulatedNode, fake: FakeNvml) -> None:
        self.node = node
        self.fake = fake
        self.root = node.options.host_root
        self.folder: Path = node.options.state_dir / "mps"

    def mounts(self, claim: Json, device: str = "gpu-0") -> dict[str, str]:
        """Return where the containers of a claim have folders of the host that belong to one device."""
        found = self._edits(claim, device).get("mounts", ())
        return {mount["containerPath"]: mount["hostPath"] for mount in found if "ro" not in mount["options"]}

    def variables(self, claim: Json, device: str = "gpu-0") -> dict[str, str]:
        """Return the variables of CUDA that the containers of a claim get with one device."""
        pairs = (text.partition("=") for text in self._edits(claim, device)["env"])
        return {name: value for name, _, value in pairs if name.startswith("CUDA")}

    def _edits(self, claim: Json, device: str) -> Json:
        uid = claim["metadata"]["uid"]
        (file,) = (file for name, file in self.node.cdi().items() if uid in name)
        edits: Json = next(
            row["containerEdits"] for row in file["devices"] if row["name"] == f"{uid}-{device}"
        )
        return edits

    def daemons(self) -> list[int]:
        """Return the process ids of control daemons that run."""
        return [
            process.pid
            for process in psutil.process_iter()
            if any(str(self.root / "usr/bin/nvidia-cuda-mps-control") in word for word in _words(process))
        ]

    def ask(self, claim: Json, command: str, device: str = "gpu-0") -> str:
        """Ask the daemon of a claim as its containers would: through the folder that they get."""
        done = subprocess.run(
            [self.root / "usr/bin/nvidia-cuda-mps-control"],
            env={"CUDA_MPS_PIPE_DIRECTORY": self.mounts(claim, device)["/tmp/nvidia-mps"]},  # noqa: S108
            input=f"{command}\n",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def left(self) -> list[str]:
        """Return what is set up, in words; nothing on an idle node."""
        state = self.fake.read()
        found = [f"gpu {n} has mode {g.compute_mode}" for n, g in enumerate(state.gpu) if g.compute_mode]
        found += [f"gpu {n} has slice {g.time_slice}" for n, g in enumerate(state.gpu) if g.time_slice]
        found += [f"daemon {pid}" for pid in self.daemons()]
        folders = self.folder.iterdir() if self.folder.is_dir() else ()
        return found + [f"folder {path.name}" for path in folders]

    async def becomes_idle(self) -> None:
        """Wait until nothing is set up."""

        async def ask() -> list[str]:
            return self.left()

        await eventually(ask, lambda found: found == [])


def _words(process: psutil.Process) -> list[str]:
    try:
        return [*process.cmdline()]
    except psutil.Error:
        return []


@asynccontextmanager
async def sharing_host(
    node: SimulatedNode, fake: FakeNvml, environment: Mapping[str, str] | None = None
) -> AsyncIterator[SharingHost]:
    """Install the programs, and run systemd until the block ends."""
    async with systemd_on(node.options.host_root, fake, environment):
        yield SharingHost(node, fake)


@asynccontextmanager
async def systemd_on(
    root: Path, fake: FakeNvml, environment: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    """Install the programs on the host at `root`, and run systemd there until the block ends."""
    programs.install(root, VERSION)
    module = root / "sys/module/nvidia"
    module.mkdir(parents=True, exist_ok=True)
    (module / "version").write_text(f"{VERSION}\n", encoding="ascii")
    bus = root / "run/dbus/system_bus_socket"
    # That of a systemd that ended: nobody would answer there yet.
    bus.unlink(missing_ok=True)
    systemd = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "testbed.fakes.systemd", str(root)),
        env={
            **os.environ,
            **fake.environment,
            "PYTHONPATH": os.pathsep.join(sys.path),
            **(environment or {}),
        },
    )
    try:

        async def there() -> bool:
            return bus.exists()

        await eventually(there, bool)
        yield
    finally:
        systemd.terminate()
        await systemd.wait()
