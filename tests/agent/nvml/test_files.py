"""The device files that containers get for GPUs and MIG devices."""

from pathlib import Path

from apportion.agent.cdi import Injection, spec
from apportion.agent.devices.nvml.devicefiles import DeviceFiles
from apportion.agent.devices.values import DeviceNode, PartitionPlace, Placement
from testbed.fakes.nvml.host import CAPABILITIES_MAJOR, NVIDIA_MAJOR, UVM_MAJOR
from tests.agent.nvml.nodes import Node

COMMON = (
    DeviceNode("/dev/nvidiactl", major=NVIDIA_MAJOR, minor=255),
    DeviceNode("/dev/nvidia-modeset", major=NVIDIA_MAJOR, minor=254),
    DeviceNode("/dev/nvidia-uvm", major=UVM_MAJOR, minor=0),
    DeviceNode("/dev/nvidia-uvm-tools", major=UVM_MAJOR, minor=1),
)


def test_a_whole_gpu_is_its_minor(node: Node) -> None:
    """Not its index: the fake's minors run the other way."""
    first, _ = node.backend.devices()
    edits = node.backend.edits(first.name)
    assert edits.nodes == (*COMMON, DeviceNode("/dev/nvidia1", major=NVIDIA_MAJOR, minor=1))
    assert edits.env == (("NVIDIA_VISIBLE_DEVICES", "void"),)


def test_a_mig_device_adds_two_capabilities(node: Node) -> None:
    """Those of its GPU instance and of its compute instance, with the minors that the driver gave them."""
    made = node.backend.create(PartitionPlace("gpu-0", "2g.20gb", Placement(2, 2)))
    instance = made.instance["gpuInstance"]
    minors = dict(
        line.split()
        for line in (node.root / "proc/driver/nvidia-caps/mig-minors")
        .read_text(encoding="ascii")
        .splitlines()
    )
    wanted = [int(minors[f"gpu1/gi{instance}/access"]), int(minors[f"gpu1/gi{instance}/ci0/access"])]
    assert made.edits.nodes == (
        *COMMON,
        DeviceNode("/dev/nvidia1", major=NVIDIA_MAJOR, minor=1),
        *(
            DeviceNode(f"/dev/nvidia-caps/nvidia-cap{minor}", major=CAPABILITIES_MAJOR, minor=minor)
            for minor in wanted
        ),
    )


def test_the_minors_stand_in_the_cdi_file(node: Node) -> None:
    """With type, major and minor the runtime makes the file, whether the host has it or not."""
    made = node.backend.create(PartitionPlace("gpu-0", "7g.80gb", Placement(0, 8)))
    (device,) = spec("d", "c", [Injection("x", ("r",), made.uuid, True, made.edits)])["devices"]  # noqa: FBT003
    last = device["containerEdits"]["deviceNodes"][-1]
    minor = last["minor"]
    assert last == {"path": f"/dev/nvidia-caps/nvidia-cap{minor}", "type": "c", "major": 237, "minor": minor}


def test_older_hosts_keep_a_file_per_capability(tmp_path: Path) -> None:
    """Without the table of minors, each capability's own file has it."""
    access = tmp_path / "proc/driver/nvidia/capabilities/gpu0/mig/gi3"
    (access / "ci0").mkdir(parents=True)
    for folder, minor in ((access, 30), (access / "ci0", 31)):
        (folder / "access").write_text(
            f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n", encoding="ascii"
        )
    paths = [node.path for node in DeviceFiles(tmp_path).partition(0, 3, 0).nodes]
    assert paths == [
        "/dev/nvidiactl", "/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap30", "/dev/nvidia-caps/nvidia-cap31"
    ]  # fmt: skip


def test_files_that_nobody_knows_are_left_out(tmp_path: Path) -> None:
    """A file that is not on the host would keep the container from starting; one that is there goes in."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidia-uvm").touch()
    nodes = DeviceFiles(tmp_path).whole(0, "0000:18:00.0").nodes
    assert nodes == tuple(DeviceNode(f"/dev/{name}") for name in ("nvidiactl", "nvidia-uvm", "nvidia0"))


def test_the_older_name_of_the_module_is_understood(tmp_path: Path) -> None:
    """`nvidia-frontend` is what drivers before 555 call it; block devices are another table."""
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "devices").write_text(
        "Character devices:\n195 nvidia-frontend\n\nBlock devices:\n  9 nvidia-uvm\n", encoding="ascii"
    )
    assert DeviceFiles(tmp_path).whole(2, "0000:18:00.0").nodes == (
        DeviceNode("/dev/nvidiactl", major=195, minor=255),
        DeviceNode("/dev/nvidia-modeset", major=195, minor=254),
        DeviceNode("/dev/nvidia2", major=195, minor=2),
    )
