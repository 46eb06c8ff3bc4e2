"""The report about real cards on a real containerd: a container gets each card, and what arrives inside is compared."""

import asyncio
import json
import os
import sys

from testbed.binaries import Binaries
from testbed.installation import REPOSITORY, product_environment
from testbed.realnode.installation import RealNodeInstallation


async def test_a_container_shows_that_each_card_arrives(
    installation: RealNodeInstallation, node_binaries: Binaries
) -> None:
    """By the host's ctr, with the numbers of the driver; the file for the runtime is gone afterwards."""
    host = installation.node.host
    folder = host.folder / "real-card"
    folder.mkdir()
    # Where a distribution installs them, containerd finds its shim by itself.
    shim = node_binaries["containerd-shim-runc-v2"]
    wrapper = folder / "ctr"
    wrapper.write_text(
        f"""#!/bin/sh
for word; do shift; set -- "$@" "$word"; [ "$word" = run ] && set -- "$@" --runtime {shim}; done
exec {node_binaries["ctr"]} "$@"
"""
    )
    wrapper.chmod(0o755)
    environment = product_environment() | installation.hardware.environment
    environment |= {
        "PATH": os.pathsep.join((str(folder), os.environ["PATH"])),
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY / "operator"), str(REPOSITORY))),
    }
    command = host.command(
        *(sys.executable, "-m", "testbed", "real-card", "--host-root", str(installation.hardware.root)),
        *("--report", str(folder / "report.json")),
    )
    process = await asyncio.create_subprocess_exec(
        *command, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    said, _ = await process.communicate()
    report = json.loads((folder / "report.json").read_text())
    started = {
        each["name"]: each for each in report["checks"] if each["name"].endswith("a container gets it")
    }
    assert started.keys() == {"gpu-0: a container gets it", "npu-0: a container gets it"}, said.decode()
    assert {each["verdict"] for each in started.values()} == {"ok"}, started
    assert "device files, each with its number" in started["gpu-0: a container gets it"]["said"]
    assert not [name for name in installation.cdi() if name.startswith("real-card")]
    assert await installation.node.containerd.containers() == []
