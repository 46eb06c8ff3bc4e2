"""Records of testbeds that outlive the shell that started them: one file per name in the user's state folder."""

import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import orjson
import platformdirs

from testbed.errors import TestbedError
from testbed.process import Identity, Process

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,30}[a-z0-9])?")
_GRACE_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SavedProcess:
    """One process of a testbed. Process ids are reused, so id and start time together identify it."""

    name: str
    pid: int
    started: float
    log: str

    @classmethod
    def of(cls, process: Process) -> Self:
        """Record a running process."""
        return cls(process.name, process.identity.pid, process.identity.started, str(process.log))

    def adopt(self) -> Process:
        """Return the process for stopping it."""
        return Process.adopt(self.name, Identity(self.pid, self.started), Path(self.log))


@dataclass(frozen=True, slots=True)
class SavedTestbed:
    """One testbed: its processes in the order of starting, and the folder with all its files."""

    name: str
    kubernetes: str
    folder: str
    kubeconfig: str
    nodes: int
    processes: tuple[SavedProcess, ...]

    async def end(self) -> None:
        """End its processes, last started first, and delete its files and its record."""
        for recorded in reversed(self.processes):
            await recorded.adopt().stop(_GRACE_SECONDS)
        shutil.rmtree(self.folder, ignore_errors=True)
        _file(self.name).unlink(missing_ok=True)


def save(testbed: SavedTestbed) -> None:
    """Write the record atomically."""
    file = _file(testbed.name)
    file.parent.mkdir(parents=True, exist_ok=True)
    scratch = file.with_suffix(".new")
    scratch.write_bytes(orjson.dumps(asdict(testbed), option=orjson.OPT_INDENT_2))
    scratch.replace(file)


def load(name: str) -> SavedTestbed | None:
    """Return the recorded testbed of this name, None if there is none. Raises TestbedError for a bad name."""
    file = _file(name)
    if not file.is_file():
        return None
    content = orjson.loads(file.read_bytes())
    processes = tuple(SavedProcess(**each) for each in content.pop("processes"))
    return SavedTestbed(**content, processes=processes)


def names() -> Iterable[str]:
    """Return the names of all recorded testbeds of this user."""
    return sorted(file.stem for file in _folder().glob("*.json"))


def _folder() -> Path:
    return platformdirs.user_state_path("apportion") / "testbed"


def _file(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise TestbedError(f"{name!r} cannot name a testbed: use up to 32 of a-z, 0-9 and '-'")
    return _folder() / f"{name}.json"
