"""The user side of NVIDIA's driver that a CUDA container needs: libraries, tools, sockets, and the hooks that make them known.

In: the host's files. Out: Edits without device files. The version is that of the loaded kernel module; libraries are all
that have it in their name; links are those that the host has. Rules: NVIDIA's container toolkit
(`pkg/nvcdi/driver-nvml.go`): every `lib*.so.<version>` beside libcuda, links to them, then ldconfig in the container.
"""

import ctypes
import re
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

import structlog

from apportion.agent.devices.hostfs import HostFiles
from apportion.agent.devices.nvml.devicefiles import CREATE_SYMLINKS
from apportion.agent.devices.nvml.drivertools import FoundDriver, Tool, find_program, find_tool
from apportion.agent.devices.values import Edits, Hook, Mount

_log = structlog.get_logger()

_ROOTS = ("/", "/run/nvidia/driver", "/home/kubernetes/bin/nvidia")
"""Where the driver is installed: on the host, by the GPU operator's driver container, or by GKE on Container-Optimized OS.

The last: NVIDIA/nvidia-container-toolkit issue 209.
"""
_FOLDERS = (
    "usr/lib64",
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "lib64",
    "lib/x86_64-linux-gnu",
    "lib/aarch64-linux-gnu",
    "usr/local/nvidia/lib64",
    "usr/lib",
)
_LOOK = 5.0
"""Seconds between two looks at folders, each of which takes milliseconds; the files of claims follow what is found."""
_TOOLS = (
    "nvidia-smi",
    "nvidia-debugdump",
    "nvidia-persistenced",
    "nvidia-cuda-mps-control",
    "nvidia-cuda-mps-server",
)
_LEGACY = "libnvidia-nvvm70.so."
"""A library of the driver whose name has a version of its own (toolkit, pkg/nvcdi/driver-nvml.go:193)."""
_NO_NEW_NODES = "disable-device-node-modification"
"""A hook that keeps programs in the container from making device files; the toolkit has it from 1.17.8 on (internal/discover/hooks.go)."""
_SOCKETS = ("/run/nvidia-persistenced/socket", "/run/nvidia-fabricmanager/socket")
_SOCKET_OPTIONS = ("nosuid", "nodev", "rbind", "rprivate", "noexec")
_HOOKS = (("nvidia-cdi-hook", ("nvidia-cdi-hook",)), ("nvidia-ctk", ("nvidia-ctk", "hook")))
"""NVIDIA's container toolkit; the second is its older name."""
_HOOK_FOLDERS = ("/usr/bin", "/usr/local/nvidia/toolkit", "/usr/local/bin")
_VERSIONED = re.compile(r"libcuda\.so\.(\d+\.\d+(?:\.\d+)*)")
_KERNEL = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+\.\d+(?:\.\d+)*)")


class DriverFiles:
    """Looks again only when the driver's version or a folder has changed."""

    def __init__(
        self,
        root: Path = Path("/"),
        driver_root: Path | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`root` is where the host's `/` is; `driver_root` where the host has the driver, None: looked for at the usual places."""
        self._clock = clock
        self._folders: tuple[float, tuple[int, ...]] = (float("-inf"), ())
        """When folders were looked at, and when each had changed."""
        self._host = HostFiles(root)
        self._roots = _ROOTS if driver_root is None else (str(driver_root),)
        self._last: tuple[tuple[object, ...], Edits] = ((), Edits())
        """What was looked at, and what was found; one value, because several threads ask."""

    def edits(self) -> Edits:
        """Return mounts and hooks for a CUDA container; on a host without the libraries they have a `warning`."""
        seen = self._signature()
        before, edits = self._last
        if seen != before:
            edits = self._look()
            self._last = seen, edits
            if edits.warning:
                _log.warning("nvidia.driver_files", problem=edits.warning)
            else:
                _log.info("nvidia.driver_files", mounts=len(edits.mounts))
        return edits

    def preload(self) -> bool:
        """Load the host's libnvidia-ml into this process, so that a container need not bring its own.

        The loader matches a library that is already there by its soname. Only this one file is loaded from the host: a whole
        folder of the host in the library path would bring the host's C library too. Returns whether it is loaded.
        """
        found = self._find()
        if found is None:
            return False
        path = self._host.resolve(found.folder / f"libnvidia-ml.so.{found.version}")
        if path is None:
            return False
        try:
            ctypes.CDLL(str(self._host.here(path)), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            _log.warning("nvidia.library_unusable", library=str(path), error=str(error))
            return False
        return True

    def tool(self, name: str) -> Tool | None:
        """Return a program of the driver that is installed, None when there is none."""
        found = self._find()
        return find_tool(self._host, found, name) if found is not None else None

    def _signature(self) -> tuple[object, ...]:
        looked, changes = self._folders
        now = self._clock()
        if now - looked >= _LOOK:
            folders = [str(PurePosixPath(root) / folder) for root in self._roots for folder in _FOLDERS]
            changes = tuple(self._host.changed(path) for path in (*folders, *_HOOK_FOLDERS, *_SOCKETS))
            self._folders = now, changes
        return self._version(), changes

    def _version(self) -> str:
        """Return the version of the loaded kernel module, "" when it is unknown."""
        loaded = self._host.text("/sys/module/nvidia/version").strip()
        if loaded:
            return loaded
        found = _KERNEL.search(self._host.text("/proc/driver/nvidia/version"))
        return found[1] if found else ""

    def _find(self) -> FoundDriver | None:
        version = self._version()
        for root in self._roots:
            for name in _FOLDERS:
                folder = PurePosixPath(root) / name
                there = {
                    found[1] for file in self._host.names(folder) if (found := _VERSIONED.fullmatch(file))
                }
                if version in there:
                    return FoundDriver(root, folder, version)
                if version or not there:
                    # Libraries of another version than the module's would only fail later, and less clearly.
                    continue
                active = self._host.resolve(folder / "libcuda.so.1")
                library = _VERSIONED.fullmatch(active.name) if active is not None else None
                if library is not None:
                    return FoundDriver(root, folder, library[1])
        return None

    def _look(self) -> Edits:
        found = self._find()
        if found is None:
            version = self._version()
            wanted = f"libcuda.so.{version}" if version else "libcuda.so.1"
            return Edits(
                warning=f"the host has no {wanted} in the usual library folders: containers get the GPU's device files, but"
                " no driver libraries"
            )
        files, links = self._libraries(found)
        tool = self._hook()
        mounts = [self._mount(found, path) for path in files]
        if tool is None:
            # Without a tool that makes links, each of them is a mount of its file.
            mounts += [Mount(str(target), self._inside(found, path)) for path, target in links]
        mounts += self._extras(found)
        mounts += [
            Mount(socket, socket, _SOCKET_OPTIONS)
            for socket in _SOCKETS
            if self._host.resolve(socket) is not None
        ]
        named = tuple((target.name, self._inside(found, path)) for path, target in links)
        return Edits(
            mounts=tuple(dict.fromkeys(mounts)),
            hooks=(
                _hooks(
                    *tool,
                    named,
                    self._inside(found, found.folder),
                    no_new_nodes=self._knows(tool[0], _NO_NEW_NODES),
                )
                if tool is not None
                else ()
            ),
            warning=""
            if tool is not None
            else "the host has neither nvidia-cdi-hook nor nvidia-ctk: containers find the driver libraries only if their"
            f" loader looks in {self._inside(found, found.folder)}",
        )

    def _libraries(
        self, found: FoundDriver
    ) -> tuple[tuple[PurePosixPath, ...], tuple[tuple[PurePosixPath, PurePosixPath], ...]]:
        """Return the libraries of this version, and the links of the host that lead to one of them."""
        files, links = [], []
        ending = f".so.{found.version}"
        for name in self._host.names(found.folder):
            if ".so" not in name or not name.startswith("lib"):
                continue
            path = found.folder / name
            target = self._host.resolve(path)
            if target is None:
                continue
            if name.endswith(ending) or (name.startswith(_LEGACY) and target.name == name):
                files.append(path)
            elif target.name.endswith(ending) or target.name.startswith(_LEGACY):
                links.append((path, found.folder / target.name))
        return tuple(files), tuple((path, target) for path, target in links if target in files)

    def _extras(self, found: FoundDriver) -> list[Mount]:
        """Return tools and firmware, as far as they are there."""
        root = PurePosixPath(found.root)
        firmware = root / "lib/firmware/nvidia" / found.version
        wanted = [
            firmware / name
            for name in self._host.names(firmware)
            if re.fullmatch(r"gsp.*\.bin", name) is not None
        ]
        tools = {
            # A driver that is not installed as on other systems is seen by containers as if it were.
            name: find_program(self._host, found.root, name)
            for name in _TOOLS
        }
        return [
            *(Mount(str(path), f"/usr/bin/{name}") for name, path in tools.items() if path is not None),
            *(self._mount(found, path) for path in wanted if self._host.resolve(path) is not None),
        ]

    def _hook(self) -> tuple[str, tuple[str, ...]] | None:
        for name, start in _HOOKS:
            for folder in _HOOK_FOLDERS:
                if self._host.resolve(f"{folder}/{name}") is not None:
                    return f"{folder}/{name}", start
        return None

    def _knows(self, tool: str, hook: str) -> bool:
        """Say whether a tool of the host has a hook: one that it does not know would keep containers from starting.

        Its program has the hook's name in it, as a text. Where the GPU operator installs the tool it is a script beside the program,
        whose name ends in `.real`.
        """
        for path in (tool, f"{tool}.real"):
            found = self._host.resolve(path)
            if found is not None and self._host.contains(found, hook.encode()):
                return True
        return False

    def _mount(self, found: FoundDriver, path: PurePosixPath) -> Mount:
        target = self._host.resolve(path) or path
        return Mount(str(target), self._inside(found, path))

    def _inside(self, found: FoundDriver, path: PurePosixPath) -> str:
        """Return where a file of the driver is in the container: as if the driver were installed there."""
        return str(PurePosixPath("/") / path.relative_to(found.root))


def _hooks(
    path: str,
    start: tuple[str, ...],
    links: tuple[tuple[str, str], ...],
    folder: str,
    *,
    no_new_nodes: bool,
) -> tuple[Hook, ...]:
    """Return the hooks that every release of the toolkit has: links, then ldconfig; and one that only later releases have."""
    pairs = tuple(word for target, link in links for word in ("--link", f"{target}::{link}"))
    made = (Hook(path, (*start, CREATE_SYMLINKS, *pairs)),) if pairs else ()
    last = (Hook(path, (*start, _NO_NEW_NODES)),) if no_new_nodes else ()
    return (*made, Hook(path, (*start, "update-ldcache", "--folder", folder)), *last)
