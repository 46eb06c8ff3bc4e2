"""Control daemons of the Multi-Process Service as units of the host's systemd.

In: a daemon's devices and limits. Out: a running `nvidia-cuda-mps-control` of the host's driver that has taken the limits. It is no
child of the agent: programs that compute through it go on while the agent is restarted or replaced (ADR 0019).
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.nvml.drivertools import Tool
from apportion.agent.devices.sharing import ControlDaemon
from apportion.agent.devices.systemd import Property, Systemd
from apportion.errors import NotReady, Unsupported

_PREFIX: Final = "apportion-mps-"
_PROGRAM: Final = "nvidia-cuda-mps-control"
_SHM: Final = "/dev/shm"  # noqa: S108 - where clients and server meet, a folder of their own
_ANSWERS: Final = "answers"
"""What the daemon answered when it got its limits, in its log folder."""
_AMOUNT: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([MG]?)")


class MpsDaemons:
    """The control daemons of this node."""

    def __init__(self, systemd: Systemd, driver: DriverFiles) -> None:
        self._systemd = systemd
        self._driver = driver

    def start(self, daemon: ControlDaemon, seconds: float) -> None:
        """Run a daemon with its limits; one that runs without them is started anew. Raises Unsupported or NotReady; then it does not run."""
        tool = self._driver.tool(_PROGRAM)
        if tool is None:
            raise Unsupported(f"the host's driver has no {_PROGRAM}: programs cannot share a GPU by MPS")
        shm = daemon.folder / "shm"
        # As large as systems make it by default: half of the memory (tmpfs(5)).
        mount: list[Property] = [
            ("Description", ("s", f"Shared memory of MPS {daemon.name}")),
            ("What", ("s", "tmpfs")),
            ("Type", ("s", "tmpfs")),
            ("Options", ("s", "nosuid,nodev,noexec,mode=1777")),
        ]
        self._systemd.start(mount_unit(shm), mount, seconds)
        runs = self.states().get(daemon.name, False)
        try:
            if not runs or not self.has_limits(daemon):
                self._systemd.stop(service_unit(daemon.name))
                _answers(daemon).unlink(missing_ok=True)
                self._systemd.start(service_unit(daemon.name), _service(daemon, tool), seconds)
                _check(daemon)
        except (Unsupported, NotReady):
            self.stop(daemon.name)
            raise

    def has_limits(self, daemon: ControlDaemon) -> bool:
        """Say whether a daemon that runs has taken its limits. Raises NotReady when its answers cannot be read.

        systemd starts a daemon anew by itself, and calls it active whatever it answers. What it answered at its start lies there until it
        is read and fine: if nothing does, it has not been started since.
        """
        if not _answers(daemon).exists():
            return True
        try:
            _check(daemon)
        except Unsupported:
            return False
        return True

    def stop(self, name: str) -> None:
        """End a daemon, then take its shared memory away."""
        self._systemd.stop(service_unit(name))
        for unit in self._systemd.states(f"*-{name}-shm.mount"):
            self._systemd.stop(unit)

    def states(self) -> Mapping[str, bool]:
        """Return the daemons that are there by name, and whether each has taken its limits and serves."""
        return {
            unit.removeprefix(_PREFIX).removesuffix(".service"): state == "active"
            for unit, state in self._systemd.states(f"{_PREFIX}*.service").items()
        }


def service_unit(name: str) -> str:
    """Return the unit of a daemon."""
    return f"{_PREFIX}{name}.service"


def mount_unit(path: Path) -> str:
    """Return the unit of a mount, which systemd names after its path (systemd.unit(5), "string escaping")."""
    return "-".join(_escaped(part) for part in path.parts[1:]) + ".mount"


def _escaped(part: str) -> str:
    """Return a part of a path as it stands in a unit's name."""
    kept = "".join(
        char if char.isalnum() or char in ":_." else f"\\x{byte:02x}"
        for char in part
        for byte in char.encode()
    )
    return f"\\x2e{kept[1:]}" if kept.startswith(".") else kept


def _service(daemon: ControlDaemon, tool: Tool) -> list[Property]:
    """Return the unit's properties: it is started anew with its limits when it dies, and knows no device but its own."""
    pipe, log = str(daemon.folder / "pipe"), str(daemon.folder / "log")
    environment = [
        f"CUDA_VISIBLE_DEVICES={','.join(daemon.devices)}",
        f"CUDA_MPS_PIPE_DIRECTORY={pipe}",
        f"CUDA_MPS_LOG_DIRECTORY={log}",
        *tool.environment,
    ]
    # -d returns when the daemon listens (nvidia-cuda-mps-control(1)); -M: dra-driver-nvidia-gpu, mps-control-daemon.tmpl.yaml.
    start = [tool.path, "-d", *(["-M"] if daemon.multi_user else [])]
    binds = [(str(daemon.folder / "shm"), _SHM, False, 0)]
    if tool.root:
        binds += [(folder, folder, False, 0) for folder in (pipe, log)]
    properties: list[Property] = [
        ("Description", ("s", f"NVIDIA MPS control daemon of {', '.join(daemon.devices)}")),
        ("Type", ("s", "forking")),
        ("Environment", ("as", environment)),
        ("ExecStart", ("a(sasb)", [(tool.path, start, False)])),
        ("BindPaths", ("a(ssbt)", binds)),
        ("Restart", ("s", "always")),
        ("RestartUSec", ("t", 1_000_000)),
        ("StartLimitIntervalUSec", ("t", 0)),
    ]
    if tool.root:
        properties.append(("RootDirectory", ("s", tool.root)))
    if daemon.commands:
        # The same program without options passes on what it reads, and the unit is active only when that is done.
        properties += [
            ("ExecStartPost", ("a(sasb)", [(tool.path, [tool.path], False)])),
            ("StandardInput", ("s", "data")),
            ("StandardInputData", ("ay", "".join(f"{line}\n" for line in daemon.commands).encode())),
            ("StandardOutputFile", ("s", f"{log}/{_ANSWERS}")),
        ]
    return properties


def _answers(daemon: ControlDaemon) -> Path:
    return daemon.folder / "log" / _ANSWERS


def _check(daemon: ControlDaemon) -> None:
    """Raise Unsupported unless the daemon's answers show its limits: the program's status does not say that a command was refused.

    Answers that are fine are removed: systemd does not cut the file off when it writes those of the next start.
    """
    if not daemon.commands:
        return
    try:
        said = _answers(daemon).read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise NotReady(f"MPS {daemon.name}: what its daemon answered cannot be read: {error}") from None
    shown = {_mib(number, unit) for line in said.splitlines() for number, unit in _AMOUNT.findall(line)}
    wanted = [float(mib) for _, mib in daemon.memory]
    if daemon.percentage is not None:
        wanted.append(float(daemon.percentage))
    if not shown.issuperset(wanted):
        words = " ".join(said.split()) or "nothing"
        raise Unsupported(
            f"MPS {daemon.name}: the daemon has not taken its limits; it answers: {words[:300]}"
        )
    _answers(daemon).unlink(missing_ok=True)


def _mib(number: str, unit: str) -> float:
    return float(number) * (1024 if unit == "G" else 1)
