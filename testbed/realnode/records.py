"""Records of running nodes, by which the next start cleans up after a test that was killed.

In: a running node's ids. Out: a file per node in the user's state folder. The kernel ends the processes with their owner;
`sweep` removes the control groups and the folder of nodes whose owner has ended.
"""

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

import orjson
import platformdirs
import psutil

from testbed.process import Identity
from testbed.realnode import cgroups
from testbed.realnode.isolatedhost import end


@dataclass(frozen=True, slots=True)
class Record:
    """One node: who started it, its process 1, its control group and its folder."""

    owner: Identity
    init: Identity
    group: str
    folder: str


def save(record: Record) -> None:
    """Write the record, in one step; a later one of the same group takes its place."""
    file = _file(record.group)
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_suffix(".new")
    fresh.write_bytes(orjson.dumps(asdict(record)))
    fresh.replace(file)


def forget(group: str) -> None:
    """Remove the record of a node that has ended."""
    _file(group).unlink(missing_ok=True)


def this_process() -> Identity:
    """Return the identity of this process."""
    me = psutil.Process()
    return Identity(me.pid, me.create_time())


async def sweep() -> list[str]:
    """Clean up after owners that died; returns the groups that were cleaned. Nodes of living owners stay."""
    swept = []
    for file in sorted(folder().glob("*.json")):
        try:
            raw = orjson.loads(file.read_bytes())
        except FileNotFoundError:
            continue  # another testbed sweeps too
        record = Record(Identity(**raw["owner"]), Identity(**raw["init"]), raw["group"], raw["folder"])
        if record.owner.running():
            continue
        await end(record.init)
        await cgroups.remove(record.group)
        shutil.rmtree(record.folder, ignore_errors=True)
        forget(record.group)
        swept.append(record.group)
    return swept


def folder() -> Path:
    """Return where the records are."""
    return platformdirs.user_state_path("apportion") / "nodes"


def _file(group: str) -> Path:
    return folder() / f"{group}.json"
