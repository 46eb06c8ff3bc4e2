"""Become process 1 of a node: `python inside.py FOLDER`, where FOLDER holds the node's files.

The node gets its own mounts and process ids. So all that it starts, shims and containers included, ends with this process,
and all its mounts go with them: the kernel sees to that, whoever is killed first. On the host's files it leaves no trace:
its /run, /var/log and /var/lib/kubelet lie in FOLDER, device files that are made in its /dev are its own, and what kubelet would write into /proc/sys goes into files there.
"""

import os
import signal
import stat
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kernel  # type: ignore[import-not-found]

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
"""What kubelet insists on in /proc/sys (K8S pkg/kubelet/cm/container_manager_linux.go, setupKernelTunables)."""


def main() -> None:
    """Fork process 1 and wait for its end; its id is in FOLDER/init, and FOLDER/ready appears when all is mounted."""
    folder = Path(sys.argv[1])
    kernel.unshare(kernel.CLONE_NEWNS | kernel.CLONE_NEWPID)
    child = os.fork()
    if child == 0:
        kernel.die_with_parent(signal.SIGKILL)
        _mounts(folder)
        (folder / READY).touch()
        _reap()
    (folder / "init").write_text(str(child))
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) and 1)


def _mounts(folder: Path) -> None:
    kernel.mount("none", "/", flags=kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("proc", "/proc", "proc")
    _bind(folder / "boot_id", "/proc/sys/kernel/random/boot_id")
    for name, value in SETTINGS.items():
        file = folder / "settings" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{value}\n")
        if Path("/proc/sys", name).exists():
            _bind(file, f"/proc/sys/{name}")
    _shadow(Path("/dev"), folder)
    library = _shadow(Path("/var/lib"), folder, LIBRARY)
    for name in LIBRARY:
        _bind(folder / "lib" / name, str(library / name))
    _bind(folder / "log", "/var/log")
    _bind(folder / "run", "/run")


def _shadow(parent: Path, folder: Path, own: tuple[str, ...] = ()) -> Path:
    """Put a folder of the node's own in the place of the host's, with the same in it but for `own`, which is empty."""
    stage = folder / "stage"
    stage.mkdir(exist_ok=True)
    kernel.mount("none", str(stage), "tmpfs")
    stage.chmod(0o755)
    for entry in os.scandir(parent):
        place, kind = stage / entry.name, entry.stat(follow_symlinks=False)
        if entry.name in own:
            continue
        if stat.S_ISLNK(kind.st_mode):
            place.symlink_to(Path(entry.path).readlink())
        elif stat.S_ISCHR(kind.st_mode) or stat.S_ISBLK(kind.st_mode):
            os.mknod(place, kind.st_mode, kind.st_rdev)
            place.chmod(stat.S_IMODE(kind.st_mode))
        elif stat.S_ISDIR(kind.st_mode):
            place.mkdir()
            _bind(Path(entry.path), str(place))
        elif stat.S_ISREG(kind.st_mode):
            place.touch()
            _bind(Path(entry.path), str(place))
    for name in own:
        (stage / name).mkdir()
    kernel.mount(str(stage), str(parent), flags=kernel.MOVE)
    return parent


def _bind(source: Path, target: str) -> None:
    kernel.mount(str(source), target, flags=kernel.BIND | kernel.RECURSIVE)


def _reap() -> None:
    """Do what process 1 does: wait for orphans, for ever."""
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
