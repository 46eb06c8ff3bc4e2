"""The commands of docs/upgrade.md, as they stand there."""

import asyncio
import os
import re
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.installation import REPOSITORY, Installation, SimulatedNode

PAGE = REPOSITORY / "docs/upgrade.md"


def commands() -> list[str]:
    """Return the lines that call kubectl, in order."""
    return re.findall(r"^(kubectl .*)$", PAGE.read_text(), re.MULTILINE)


def saved(folder: Path) -> list[str]:
    """Return the names of the files that are not empty."""
    return sorted(file.name for file in folder.glob("*.yaml") if file.stat().st_size)


@pytest.mark.slow
async def test_the_commands_of_the_page_work(binaries: Binaries, tmp_path: Path) -> None:
    """On an installation whose pods a simulated node runs; they are typed in the repository, and what is saved is not empty."""
    assert len(commands()) > 8
    async with (
        ControlPlane(binaries=binaries) as cluster,
        Installation(cluster, [SimulatedNode("n1", {})], operators=0, agents=False),
    ):
        for name in ("crds", "manifests"):
            (tmp_path / name).symlink_to(REPOSITORY / name)
        environment = {
            **os.environ,
            "KUBECONFIG": str(cluster.kubeconfig),
            "PATH": f"{binaries['kubectl'].parent}:{os.environ['PATH']}",
        }
        for command in commands():
            process = await asyncio.create_subprocess_shell(
                command, cwd=tmp_path, env=environment, stderr=asyncio.subprocess.PIPE
            )
            _, problems = await process.communicate()
            assert process.returncode == 0, f"{command}: {problems.decode()}"
    assert saved(tmp_path) == [
        "apportion-claims.yaml",
        "apportion-partitions.yaml",
        "apportion-settings.yaml",
    ]
