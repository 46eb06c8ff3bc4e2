"""The quickstart, literally: its blocks are run in a shell on a control plane of their own, from the first apply to the last delete."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from testbed.binaries import Binaries
from testbed.controlplane import ControlPlane
from testbed.demo.nodes import demo_nodes
from testbed.eventually import eventually
from testbed.installation import REPOSITORY, Installation
from tests.docs.blocks import blocks
from tests.e2e.tenant import LEASE

BLOCKS = [
    block.text
    for block in blocks(REPOSITORY / "docs/quickstart.md")
    if block.language == "sh" and block.is_run
]
INSTALL, *USE, REFUSED, UNINSTALL = BLOCKS
RELEASE = "apportion release"


@pytest.fixture
async def cluster(binaries: Binaries) -> AsyncIterator[ControlPlane]:
    """Give a control plane on which nothing is installed."""
    async with ControlPlane(binaries=binaries) as found:
        yield found


async def shell(cluster: ControlPlane, binaries: Binaries, text: str) -> str:
    """Run a block as a person would who has kubectl and apportion on the PATH, and stands in a clone."""
    programs = [str(Path(sys.executable).parent), str(binaries["kubectl"].parent), os.environ.get("PATH", "")]
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", text),
        cwd=REPOSITORY,
        env={
            **os.environ,
            "PATH": os.pathsep.join(programs),
            "KUBECONFIG": str(cluster.kubeconfig),
            "PYTHONPATH": str(REPOSITORY / "operator"),
        },
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )

    output, _ = await process.communicate()
    assert process.returncode == 0, f"{text}\n{output.decode()}"
    return output.decode()


async def test_the_quickstart_works_as_it_is_written(cluster: ControlPlane, binaries: Binaries) -> None:
    """What people type does what the page says; operator and agents are processes beside it, since nothing here runs containers."""
    assert "apply -k manifests/" in INSTALL
    await shell(cluster, binaries, INSTALL)
    node = next(each for each in demo_nodes() if each.name == "h100-a")
    async with Installation(cluster, [node], operator_options=LEASE) as installed:
        said = "\n".join([await shell(cluster, binaries, block) for block in USE])
        assert "NVIDIA H100" in said
        assert "team-a/mig is served" in said
        # A person who asks before controller-manager has made the claim of the pod is told so, and asks again.
        await eventually(lambda: shell(cluster, binaries, REFUSED), lambda text: "NotAllocated" in text)

        before, after = UNINSTALL.split(RELEASE)
        await shell(cluster, binaries, before)
        await installed.operators[0].stop()
        await shell(cluster, binaries, RELEASE)
        assert installed.hardware("h100-a") == []
        await shell(cluster, binaries, after)
    left, _ = await cluster.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
    assert left == []
