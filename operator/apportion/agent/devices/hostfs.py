"""The host's file system as seen from a container that has it mounted somewhere.

In: the place of the host's `/` and paths on the host. Out: the same paths with every symbolic link followed as the host would:
an absolute link on the host starts at the host's `/`, not at the container's.
"""

import os
from mmap import ACCESS_READ, mmap
from pathlib import Path, PurePosixPath

_MOST_LINKS = 40
"""As Linux has it (ELOOP)."""


_HOST_PIDS = "pid:[4026531836]"
"""The host's own PID namespace: its number is PROC_PID_INIT_INO (linux/proc_ns.h)."""


def sees_host_processes(root: Path) -> bool:
    """Say whether this process sees those of the host, and not only those of its pod; no where that cannot be read.

    `root` is where the host's /proc is.
    """
    try:
        return str((root / "proc/self/ns/pid").readlink()) == _HOST_PIDS
    except OSError:
        return False


class HostFiles:
    """Looks at files of the host; all paths that go in and come out are the host's own."""

    def __init__(self, root: Path = Path("/")) -> None:
        self.root = root

    def here(self, path: str | PurePosixPath) -> Path:
        """Return where this process finds a path of the host; links are not followed."""
        return self.root / PurePosixPath(path).relative_to("/")

    def resolve(self, path: str | PurePosixPath) -> PurePosixPath | None:
        """Return the file that a path leads to, None when there is none."""
        # Texts, and no paths: every look at the hardware resolves hundreds.
        root = str(self.root).rstrip("/")
        done: list[str] = []
        rest = [*reversed(PurePosixPath(path).parts[1:])]
        links = 0
        while rest:
            part = rest.pop()
            if part == "..":
                del done[-1:]
                continue
            done.append(part)
            try:
                target = os.readlink("/".join((root, *done)))  # noqa: PTH115 - see above
            except OSError:
                continue
            links += 1
            if links > _MOST_LINKS:
                return None
            done = [] if target.startswith("/") else done[:-1]
            rest += (each for each in reversed(target.split("/")) if each not in ("", "."))
        found = PurePosixPath("/", *done)
        return found if self.here(found).exists() else None

    def names(self, folder: str | PurePosixPath) -> tuple[str, ...]:
        """List a folder in order; one that cannot be read is empty."""
        found = self.resolve(folder)
        try:
            return tuple(sorted(entry.name for entry in self.here(found).iterdir())) if found else ()
        except OSError:
            return ()

    def text(self, path: str) -> str:
        """Return a small text file, "" when it cannot be read."""
        try:
            return self.here(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def contains(self, path: str | PurePosixPath, text: bytes) -> bool:
        """Say whether a file has this text in it; one that cannot be read has not."""
        try:
            with self.here(path).open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as content:
                return content.find(text) >= 0
        except (OSError, ValueError):
            # An empty file has no content to map.
            return False

    def changed(self, folder: str) -> int:
        """Return when a folder last changed (ns), 0 when there is none."""
        found = self.resolve(folder)
        try:
            return self.here(found).stat().st_mtime_ns if found else 0
        except OSError:
            return 0
