"""Become process 1 of a node: `python nodeinit.py FOLDER`, where FOLDER holds the node's files.

The node gets its own mounts and process ids, so the kernel ends everything that it starts, shims and containers included, and
removes its mounts, when this process ends. It changes no file of the host: its /run, /var/log and /var/lib/kubelet are in
FOLDER, and so are the files that kubelet writes in /proc/sys.
"""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import syscalls  # type: ignore[import-not-found]

READY = "ready"
LIBRARY = ("kubelet", "containerd", "apportion")
"""Folders of /var/lib that are the node's own."""
SETTINGS = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}
"""What kubelet requires in /proc/sys (K8S pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables)."""


def main() -> None:
    """Fork process 1 and wait for its end; its id is in FOLDER/init, and FOLDER/ready appears when all is mounted and that is written."""
    folder = Path(sys.argv[1])
    syscalls.unshare(syscalls.CLONE_NEWNS | syscalls.CLONE_NEWPID)
    written, write = os.pipe()
    child = os.fork()
    if child == 0:
        syscalls.die_with_parent(signal.SIGKILL)
        os.close(write)
        _mounts(folder)
        os.read(written, 1)
        os.close(written)
        (folder / READY).touch()
        _reap()
    os.close(written)
    (folder / "init").write_text(str(child))
    os.close(write)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) and 1)


def _mounts(folder: Path) -> None:
    syscalls.mount("none", "/", flags=syscalls.RECURSIVE | syscalls.PRIVATE)
    syscalls.mount("proc", "/proc", "proc")
    _bind(folder / "boot_id", "/proc/sys/kernel/random/boot_id")
    for name, value in SETTINGS.items():
        file = folder / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _bind(file, f"/proc/sys/{name}")
    _bind_entries(Path("/var/lib"), folder)
    _bind(folder / "log", "/var/log")
    _bind(folder / "run", "/run")


def _bind_entries(parent: Path, folder: Path) -> None:
    """Bind a folder's entries, except for the node's own ones, which need not exist on the host."""
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    syscalls.mount("none", str(stage), "tmpfs")
    stage.chmod(0o755)
    for entry in os.scandir(parent):
        place = stage / entry.name
        if entry.name in LIBRARY:
            continue
        if entry.is_symlink():
            place.symlink_to(Path(entry.path).readlink())
            continue
        if entry.is_dir():
            place.mkdir()
        else:
            place.touch()
        _bind(Path(entry.path), str(place))
    for name in LIBRARY:
        (stage / name).mkdir()
        _bind(folder / "lib" / name, str(stage / name))
    syscalls.mount(str(stage), str(parent), flags=syscalls.MOVE)


def _bind(source: Path, target: str) -> None:
    syscalls.mount(str(source), target, flags=syscalls.BIND | syscalls.RECURSIVE)


def _reap() -> None:
    """Reap orphans for ever, as process 1 must."""
    # A child that ends interrupts the pause; without a handler the kernel would not even deliver the signal.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    while True:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        signal.sigtimedwait([signal.SIGCHLD], 1.0)


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(str(error))
