"""A backup of etcd, taken while it runs, and a control plane that goes back to it.

In: a control plane, the program `etcdutl`. Out: a snapshot file; a control plane whose history is that of the file.
"""

import asyncio
import base64
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import aiohttp
import orjson

from testbed.components import ALL
from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError

ETCDUTL: Final = "etcdutl"
RAISED: Final = ("--bump-revision", "1000000000", "--mark-compacted")
"""What docs/upgrade.md says to restore with: no watch goes on as if nothing had happened."""


async def take(cluster: ControlPlane, file: Path) -> None:
    """Write what `etcdctl snapshot save` writes: the answer of etcd's maintenance API, which ends with a checksum."""
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{cluster.etcd}/v3/maintenance/snapshot", json={}) as response,
    ):
        parts = [orjson.loads(line)["result"] for line in (await response.read()).splitlines()]
    content = b"".join(base64.b64decode(part.get("blob", "")) for part in parts)
    await asyncio.to_thread(file.write_bytes, content)


async def restore(cluster: ControlPlane, file: Path, etcdutl: Path, options: Sequence[str] = ()) -> None:
    """Stop the control plane, replace etcd's data by the snapshot, and start it again. Raises TestbedError.

    Without options, revisions go on from that of the snapshot, and are given a second time.
    """
    running = [name for name in ALL if name in cluster.processes]
    for name in reversed(running):
        await cluster.stop_component(name)
    layout = cluster.layout
    shutil.rmtree(layout.etcd_data)
    process = await asyncio.create_subprocess_exec(
        *(etcdutl, "snapshot", "restore", file, "--data-dir", layout.etcd_data),
        *("--initial-cluster", f"default={layout.etcd_peer}"),
        *("--initial-advertise-peer-urls", layout.etcd_peer),
        *options,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    if process.returncode != 0:
        raise TestbedError(f"etcdutl snapshot restore: {said.decode(errors='replace').strip()}")
    for name in running:
        await cluster.start_component(name)
