"""Network namespaces: entered for a moment, and kept while a NIC is in one.

In: paths. Out: answers from inside, and pins. A pin is a mount of a namespace below the agent's own folder: as long as it is there the
kernel ends neither the namespace nor the interfaces in it, whatever becomes of the pod, its sandbox and the agent.
"""

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

from apportion.agent.devices.hostfs import HostFiles

R = TypeVar("R")
_NEW_NETWORK: Final = 0x40000000  # CLONE_NEWNET, include/uapi/linux/sched.h
_BIND: Final = 4096  # MS_BIND, include/uapi/linux/mount.h
_DETACH: Final = 2  # MNT_DETACH, same file
_libc = ctypes.CDLL(None, use_errno=True)


class Namespaces:
    """Those of one node."""

    def __init__(self, host_root: Path, pins: Path) -> None:
        """`host_root` is where the host's file system is; `pins` a folder whose mounts outlive the agent's container."""
        self._root = HostFiles(host_root)
        self.host = _readable(host_root / "proc/1/ns/net") or Path("/proc/self/ns/net")
        """That of the node itself; where the host's processes cannot be looked at, this process's own."""
        self._pins = pins

    def of_pod(self, path: str) -> Path:
        """Return where a namespace is that the runtime names, as the host sees it."""
        found = self._root.resolve(path)
        return self._root.here(found) if found is not None else Path(path)

    def pin(self, name: str, source: Path) -> Path:
        """Keep a namespace under a name; one that is kept already may be the same. Raises OSError."""
        target = self.pinned(name)
        target.parent.mkdir(parents=True, exist_ok=True)
        if self.is_pinned(name):
            if self.same(target, source):
                return target
            raise FileExistsError(f"{target} keeps another namespace")
        target.touch()
        with _opened(source) as namespace:
            # By the descriptor: the source may be a mount of another mount namespace.
            where = f"/proc/self/fd/{namespace}".encode()
            _check(
                _libc.mount(where, os.fsencode(target), None, ctypes.c_ulong(_BIND), None), f"pin {source}"
            )
        return target

    def unpin(self, name: str) -> None:
        """Keep it no longer; one that is not kept is fine. Raises OSError."""
        target = self.pinned(name)
        if self.is_pinned(name):
            _check(_libc.umount2(os.fsencode(target), _DETACH), f"unpin {target}")
        target.unlink(missing_ok=True)

    def pinned(self, name: str) -> Path:
        """Return where the pin of this name is, if there is one."""
        return self._pins / name

    def is_pinned(self, name: str) -> bool:
        """Say whether a namespace is kept under this name."""
        try:
            return self.pinned(name).stat().st_dev != self._pins.stat().st_dev
        except OSError:
            return False

    def same(self, one: Path, other: Path) -> bool:
        """Say whether two paths are one namespace. Raises OSError."""
        first, second = one.stat(), other.stat()
        return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def inside(namespace: Path, act: Callable[[], R]) -> R:
    """Act in a network namespace, in a thread that ends with it, and wait. Raises OSError, and what `act` raises."""
    answers: list[R] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with _opened(namespace) as opened:
                _check(_libc.setns(opened, _NEW_NETWORK), f"enter {namespace}")
            answers.append(act())
        except BaseException as error:  # noqa: BLE001 - it goes to who waits
            errors.append(error)

    thread = threading.Thread(target=run, name="network")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return answers[0]


def _readable(path: Path) -> Path | None:
    try:
        path.stat()
    except OSError:
        return None
    return path


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield opened
    finally:
        os.close(opened)


def _check(result: int, what: str) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
