"""containerd of a real node: its configuration, its start, the images in it.

Inside the node its files have the usual paths (/run/containerd, /var/lib/containerd), so two nodes do not share any.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.binaries import Binaries
from testbed.errors import TestbedError
from testbed.process import Process
from testbed.readiness import until_ready
from testbed.realnode.images import IMAGE, PAUSE, archive
from testbed.realnode.isolatedhost import IsolatedHost

SOCKET = "/run/containerd/containerd.sock"
_GRACE_SECONDS = 5.0
_KERNEL = frozenset({"proc", "sys", "dev"})
"""Folders of a root that every container has of its own."""

# Snapshots are copies (`native`): they work on every file system, and the images are small. What would write outside of the
# node's own folders (opt) is off; NRI looks for plugins there only, and its socket is below the node's own /run. `restrict_oom_score_adj`: not every root may lower a score (CAP_SYS_RESOURCE).
_CONFIG = """\
version = 3
disabled_plugins = ["io.containerd.internal.v1.opt"]
[plugins.'io.containerd.nri.v1.nri']
disable = false
socket_path = "/var/run/nri/nri.sock"
plugin_path = "{nri}/plugins"
plugin_config_path = "{nri}/conf.d"
[plugins.'io.containerd.cri.v1.images']
snapshotter = "native"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{pause}"
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ["/var/run/cdi"]
restrict_oom_score_adj = true
disable_apparmor = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = "runc"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
runtime_path = "{shim}"
sandboxer = "podsandbox"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = "{runc}"
SystemdCgroup = false
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["{plugins}", "{own_plugins}"]
conf_dir = "{networks}"
"""
_RUNTIME = """\
#!/bin/sh
for word; do
  [ "$word" = create ] && exec {python} -I -S {script} {runc} "$@"
done
exec {runc} "$@"
"""
_NETWORK = {"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "podnetwork.sh"}]}


class Containerd:
    """The container runtime on an isolated host."""

    def __init__(self, host: IsolatedHost, binaries: Binaries) -> None:
        self._host = host
        self._binaries = binaries
        self.log = host.folder / "containerd.log"
        self._process: Process | None = None

    async def start(self) -> None:
        """Start it, wait until it answers, and import its images. Raises ComponentDiedError or NotReadyInTimeError."""
        command: list[str | Path] = [
            self._binaries["containerd"],
            "--config",
            self._configure(),
            "--log-level",
            "info",
        ]
        # The shim runs the runc of the PATH to learn its features.
        path = os.pathsep.join((str(self._host.folder / "containerd"), os.environ.get("PATH", os.defpath)))
        self._process = Process.start(
            "containerd", self._host.command(*command), self.log, environment={**os.environ, "PATH": path}
        )

        async def answers() -> bool:
            return (await self._ctr("version"))[0] == 0

        await until_ready(self._process, answers)
        if PAUSE not in (await self.ctr("images", "list", "--quiet")).split():
            await self.ctr("images", "import", "--local", "--snapshotter", "native", str(await archive()))

    async def stop(self) -> None:
        """End it; shims and containers go on."""
        if self._process is not None:
            await self._process.stop(_GRACE_SECONDS)
            self._process = None

    async def ctr(self, *words: str) -> str:
        """Run ctr in kubelet's containerd namespace. Raises TestbedError with what it says."""
        code, said = await self._ctr(*words)
        if code != 0:
            raise TestbedError(f"ctr {' '.join(words)}: {said}")
        return said

    def container(
        self, name: str, words: Sequence[str | Path], environment: Mapping[str, str]
    ) -> list[str | Path]:
        """Return the command line that runs a program in a privileged container with the node's files and network.

        The container's root is that of a small image; each folder of the node's root is mounted into it.
        """
        places = [entry.name for entry in os.scandir("/") if entry.is_dir() and entry.name not in _KERNEL]
        mounts = [f"type=bind,src=/{place},dst=/{place},options=rbind:rw" for place in sorted(places)]
        return [
            *(self._binaries["ctr"], "--address", SOCKET, "-n", "k8s.io", "run", "--rm"),
            *("--runtime", self._binaries["containerd-shim-runc-v2"]),
            *("--snapshotter", "native", "--privileged", "--net-host"),
            *(word for mount in mounts for word in ("--mount", mount)),
            *(word for key, value in environment.items() for word in ("--env", f"{key}={value}")),
            *(IMAGE, name, *words),
        ]

    async def containers(self) -> list[str]:
        """Return the ids of all containers with a running process, sandboxes included."""
        rows = (await self.ctr("tasks", "list")).splitlines()[1:]
        return [row.split()[0] for row in rows if "RUNNING" in row]

    async def _ctr(self, *words: str) -> tuple[int, str]:
        command = self._host.command(self._binaries["ctr"], "--address", SOCKET, "-n", "k8s.io", *words)
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode(errors="replace")

    def _configure(self) -> Path:
        folder = self._host.folder / "containerd"
        networks = folder / "net.d"
        networks.mkdir(parents=True, exist_ok=True)
        (networks / "10-pods.conflist").write_text(json.dumps(_NETWORK))
        runtime = folder / "runc"
        script = Path(__file__).with_name("runcwrapper.py")
        runtime.write_text(_RUNTIME.format(python=sys.executable, script=script, runc=self._binaries["runc"]))
        runtime.chmod(0o755)
        config = folder / "config.toml"
        config.write_text(
            _CONFIG.format(
                pause=PAUSE,
                shim=self._binaries["containerd-shim-runc-v2"],
                runc=runtime,
                plugins=self._binaries["loopback"].parent,
                own_plugins=Path(__file__).parent,
                networks=networks,
                nri=folder / "nri",
            )
        )
        return config
