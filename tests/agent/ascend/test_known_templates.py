"""npu-smi, which alone names a chip's templates, does not answer when an agent starts: they are those that it named before."""

import asyncio
import shutil
from pathlib import Path

import pytest

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.ascend.knowntemplates import KnownTemplates
from apportion.agent.devices.values import Profile
from testbed.eventually import eventually
from testbed.fakes.dcmi import npu_smi
from tests.agent.ascend.nodes import MakeFake, Nodes
from tests.agent.killedagent import killed_agent
from tests.agent.places import NPU
from tests.agent.simulatednode import holder


def _silence(root: Path) -> None:
    """Have npu-smi name nothing: it looks at all cards of the node first, and one that is sick keeps it from answering in time."""
    program = root / "usr/local/bin/npu-smi"
    program.unlink()
    program.write_text("#!/bin/sh\nexit 1\n", encoding="ascii")
    program.chmod(0o755)


def _profiles(root: Path, folder: Path | None) -> tuple[Profile, ...]:
    """Return the profiles that an agent finds which starts now."""
    (card,) = AscendBackend(root, templates=KnownTemplates(folder)).devices()
    return card.profiles


@pytest.mark.parametrize("kept", [True, False], ids=["its templates are kept", "they are lost, too"])
async def test_a_chip_with_a_vnpu_in_use_is_not_offered_whole(
    faked: MakeFake, namespace: str, *, kept: bool
) -> None:
    """With its templates it is what it was; without them it has a taint, and the claim keeps its vNPU."""
    async with faked("unknown") as (node, fake):
        npu_smi.install(fake, node.options.host_root)
        async with killed_agent(node, "never") as agent:
            devices = await eventually(lambda: node.devices(NPU), bool)
            device = next(name for name in sorted(devices) if name != "npu-0")
            template = devices[device]["attributes"]["template"]["string"]
            claim = await node.claim(namespace, "part", device, driver=NPU)
            await node.partition(device, template, holder=holder(claim), driver=NPU)
            answer = await agent.insist(lambda: node.prepare(claim, driver=NPU))
            assert answer[claim["metadata"]["uid"]].error == ""
        _silence(node.options.host_root)
        if not kept:
            shutil.rmtree(node.options.state_dir / "templates")
        async with killed_agent(node, "never") as agent:
            await agent.insist(lambda: eventually(lambda: node.prepare(claim, driver=NPU), bool))
            # Time enough for the slices to settle.
            await asyncio.sleep(3)
            devices = await node.devices(NPU)
            assert (device in devices) is kept
            keys = {taint["key"] for taint in devices["npu-0"]["taints"]}
            assert keys == ({"apportion.dev/guard"} | (set() if kept else {"apportion.dev/parts-only"}))
            if kept:
                answer = await node.prepare(claim, driver=NPU)
                assert answer[claim["metadata"]["uid"]].error == ""


def test_templates_are_kept_for_a_chip_and_for_its_driver(node_with: Nodes, tmp_path: Path) -> None:
    """Those of another driver may be others, and a file that cannot be read is no reason to stop."""
    node = node_with(["unknown"])
    npu_smi.install(node.fake, node.root)
    folder = tmp_path / "templates"
    named = _profiles(node.root, folder)
    assert named
    _silence(node.root)
    assert _profiles(node.root, folder) == named
    assert _profiles(node.root, None) == _profiles(node.root, tmp_path / "others") == ()
    (file,) = folder.iterdir()
    text = file.read_text()
    for other in (text.replace('"driver": "', '"driver": "9'), text.replace("12", '"many"'), "[]", "{"):
        file.write_text(other)
        assert _profiles(node.root, folder) == ()


def test_templates_that_cannot_be_kept_on_the_disk_last_as_long_as_the_agent(
    node_with: Nodes, tmp_path: Path
) -> None:
    """The chips are discovered again and again."""
    node = node_with(["unknown"])
    npu_smi.install(node.fake, node.root)
    (tmp_path / "templates").write_text("no folder")
    backend = AscendBackend(node.root, templates=KnownTemplates(tmp_path / "templates"))
    named = backend.devices()
    _silence(node.root)
    assert named[0].profiles
    assert backend.devices() == named
