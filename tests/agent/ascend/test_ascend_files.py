"""What a container gets for an NPU or a vNPU."""

import os
from pathlib import Path

import pytest

from apportion.agent.devices.ascend.backend import AscendBackend
from apportion.agent.devices.values import DeviceNode, Mount, PartitionPlace, Placement
from testbed.fakes.dcmi.host import lay_out
from tests.agent.ascend.nodes import WANTED, Node, Nodes

_MOST = ["davinci_manager", "devmm_svm", "hisi_hdc", "dvpp_cmdlist"]
_310B = [
    "svm0",
    "ts_aisle",
    "upgrade",
    "sys",
    "vdec",
    "vpc",
    "pngd",
    "venc",
    "log_drv",
    "acodec",
    "ai",
    "ao",
    "vo",
    "hdmi",
]
MANAGERS = {
    "310P": _MOST,
    "910A": _MOST,
    "910B4": _MOST,
    "A3": _MOST,
    "310B": ["davinci_manager", "dvpp_cmdlist", *_310B],
    "950": ["davinci_manager", "hisi_hdc"],
}
"""What a chip's container gets beside the chip. Source: Ascend/mind-cluster at 22bb3d98, component/
ascend-common/cdi/devnode.go:81-84, 124-165; names to families: ascend-docker-runtime/runtime/process/process.go:163-181."""
UB = ("uburma/ub0", "uburma/ub1", "ummu/tid")
"""Given to every family that has them (devnode.go:161-162)."""
MOUNTS = {
    "/usr/local/Ascend/driver/lib64",
    "/usr/local/Ascend/driver/include",
    "/usr/local/dcmi",
    "/usr/local/bin/npu-smi",
    "/var/queue_schedule",
    "/etc/hccl_rootinfo.json",
    "/usr/local/Ascend/driver/topo",
}
"""Source: ascend-docker-runtime/build/scripts/base.list, ascend-common/cdi/mount/provider.go:57-66 at the same commit."""
OURS = {
    "/usr/local/Ascend/driver/version.info",
    "/etc/ascend_install.info",
    "/etc/hccn.conf",
}
"""More than that: what MindCluster's own pods mount one by one (source: none in its CDI files)."""
LIBRARIES = "/usr/local/Ascend/driver/lib64/common", "/usr/local/Ascend/driver/lib64/driver"
"""Source: ascend-common/cdi/spec.go:113-116."""


def fill(root: Path) -> None:
    """Give a host every file of every family."""
    names = {name for managers in MANAGERS.values() for name in managers}
    for name in (*names, *UB):
        path = root / "dev" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for folder in (*LIBRARIES, *MOUNTS, *OURS):
        (root / folder.lstrip("/")).mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("model", MANAGERS)
def test_a_container_gets_the_files_that_huaweis_own_cdi_gives_it(node_with: Nodes, model: str) -> None:
    """For each family: manager files, the UB's, the chip's or the vNPU's; mounts, and the driver's libraries."""
    node = node_with([model])
    fill(node.root)
    (card,) = node.backend.devices()
    found = [(node.backend.edits("npu-0"), "/dev/davinci0")]
    if card.profiles:
        place = PartitionPlace("npu-0", card.profiles[0].name, Placement(101, 1))
        found.append((node.backend.create(place).edits, "/dev/davinci101"))
    for edits, own in found:
        *shared, last = [file.path for file in edits.nodes]
        assert sorted(shared) == sorted(f"/dev/{name}" for name in (*MANAGERS[model], *UB))
        assert last == own
        assert {mount.host_path for mount in edits.mounts} == MOUNTS | OURS
        assert {mount.container_path for mount in edits.mounts} == MOUNTS | OURS
        assert dict(edits.env) == {
            "ASCEND_VISIBLE_DEVICES": "void",
            "LD_LIBRARY_PATH": ":".join(LIBRARIES),
        }


def test_what_a_host_does_not_have_is_left_out(node_with: Nodes) -> None:
    """An Atlas 200I has neither devmm_svm nor hisi_hdc; without davinci_manager a container fails where it starts, and says so."""
    node = node_with(["310P"])
    for name in ("davinci_manager", "devmm_svm", "hisi_hdc"):
        (node.root / "dev" / name).unlink()
    node.backend.devices()
    edits = node.backend.edits("npu-0")
    assert [file.path for file in edits.nodes] == ["/dev/davinci_manager", "/dev/davinci0"]
    assert (edits.mounts, edits.env) == ((), (("ASCEND_VISIBLE_DEVICES", "void"),))


@pytest.mark.parametrize("model", ["310B", "310P"])
def test_a_310b_alone_may_have_another_manager_for_containers(node_with: Nodes, model: str) -> None:
    """Under the usual name inside."""
    node = node_with([model])
    (node.root / "dev" / "davinci_manager_docker").touch()
    node.backend.devices()
    first = node.backend.edits("npu-0").nodes[0]
    assert first == DeviceNode(
        "/dev/davinci_manager", "/dev/davinci_manager_docker" if model == "310B" else ""
    )


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
