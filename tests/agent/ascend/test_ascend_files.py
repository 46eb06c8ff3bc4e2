"""What a container gets for an NPU or a vNPU."""

import os

import pytest

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.values import DeviceNode, Mount
from testbed.fakes.dcmi.host import lay_out
from tests.agent.ascend.nodes import WANTED, Node


def test_a_whole_npu_has_its_own_file_and_the_drivers(node: Node) -> None:
    """And tells Huawei's container runtime to add nothing."""
    (node.root / "dev" / "dvpp_cmdlist").touch()
    _, card = node.backend.devices()
    edits = node.backend.edits(card.name)
    assert [file.path for file in edits.nodes] == [
        "/dev/davinci_manager", "/dev/devmm_svm", "/dev/hisi_hdc", "/dev/dvpp_cmdlist", "/dev/davinci1",
    ]  # fmt: skip
    assert edits.env == (("ASCEND_VISIBLE_DEVICES", "void"),)


def test_a_vnpus_file_has_another_name_inside(node: Node) -> None:
    """Programs look for davinci; the chip's own file stays out."""
    made = node.backend.create(WANTED)
    assert DeviceNode("/dev/davinci103", "/dev/vdavinci103") in made.edits.nodes
    assert "/dev/davinci0" not in {file.path for file in made.edits.nodes}


def test_the_drivers_folders_are_mounted_where_the_host_has_them(node: Node) -> None:
    """Read-only, at the same place."""
    (node.root / "usr" / "local" / "Ascend" / "driver" / "lib64").mkdir(parents=True)
    (node.root / "etc").mkdir()
    (node.root / "etc" / "hccn.conf").touch()
    made = node.backend.create(WANTED)
    assert made.edits.mounts == (
        Mount("/usr/local/Ascend/driver/lib64", "/usr/local/Ascend/driver/lib64"),
        Mount("/etc/hccn.conf", "/etc/hccn.conf"),
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="making device files takes root")
def test_real_device_files_are_given_with_their_numbers(node: Node) -> None:
    """Read where the agent sees the host, because the runtime may see another /dev."""
    root = node.root.with_name("other")
    try:
        lay_out(node.fake, root, device_files=True)
    except OSError as error:
        pytest.skip(f"this machine makes no device files: {error}")
    (live,) = AscendBackend(root).partitions() or (AscendBackend(root).create(WANTED),)
    own = next(file for file in live.edits.nodes if file.path == "/dev/davinci103")
    facts = (root / "dev" / "vdavinci103").stat()
    assert (own.major, own.minor) == (os.major(facts.st_rdev), os.minor(facts.st_rdev))
