"""What containers get for graphics, and what newer toolkits and drivers have beside what all have."""

from pathlib import Path

from apportion.agent.devices.nvml.backend import NvmlBackend
from apportion.agent.devices.nvml.displayfiles import display_files
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.values import DeviceNode, Edits, PartitionPlace, Placement
from tests.agent.nvml.driverhost import UBUNTU, VERSION, host
from tests.agent.nvml.nodes import Node, Nodes

BUS = "0000:18:00.0"
DRM = (("card1", 1), ("renderD128", 128))


def draw(root: Path, bus: str = BUS) -> None:
    """Give a GPU DRM files, with the links that udev makes."""
    for name, minor in DRM:
        folder = root / f"sys/bus/pci/devices/{bus}/drm/{name}"
        folder.mkdir(parents=True)
        (folder / "dev").write_text(f"226:{minor}\n", encoding="ascii")
        (root / "dev/dri/by-path").mkdir(parents=True, exist_ok=True)
        (root / f"dev/dri/{name}").touch()
        kind = "card" if name.startswith("card") else "render"
        (root / f"dev/dri/by-path/pci-{bus}-{kind}").symlink_to(f"../{name}")


def display(edits: Edits) -> list[tuple[str, int | None, int | None]]:
    """Return the DRM files in what a container gets."""
    return [(node.path, node.major, node.minor) for node in edits.nodes if node.path.startswith("/dev/dri/")]


def links(edits: Edits) -> list[str]:
    """Return the links to DRM files that a hook makes."""
    return [word for hook in edits.hooks for word in hook.args if "/dev/dri/by-path/" in word]


def test_a_whole_gpu_has_its_own_drm_files(node: Node) -> None:
    """With the links by its place; the other GPU's files stay out."""
    host(node.root)
    draw(node.root)
    backend = NvmlBackend(node.root)
    backend.devices()
    assert display(backend.edits("gpu-0")) == [("/dev/dri/card1", 226, 1), ("/dev/dri/renderD128", 226, 128)]
    assert links(backend.edits("gpu-0")) == [
        f"../card1::/dev/dri/by-path/pci-{BUS}-card",
        f"../renderD128::/dev/dri/by-path/pci-{BUS}-render",
    ]
    assert display(backend.edits("gpu-1")) == []
    assert links(backend.edits("gpu-1")) == []
    backend.close()


def test_of_the_partitions_only_those_for_graphics_have_drm_files(node_with: Nodes) -> None:
    """The profile says it (+gfx)."""
    node = node_with(["H100-80GB"], mig=True)
    node.fake.rename({20: "1g.10gb+gfx"})
    draw(node.root)
    node.backend.devices()
    first = node.backend.create(PartitionPlace("gpu-0", "1g.10gb+gfx", Placement(0, 1)))
    second = node.backend.create(PartitionPlace("gpu-0", "1g.10gb", Placement(1, 1)))
    assert [path for path, _, _ in display(first.edits)] == ["/dev/dri/card1", "/dev/dri/renderD128"]
    assert display(second.edits) == []


def test_drm_files_that_the_host_has_not_are_left_out(node: Node) -> None:
    """A file that is not there would keep the container from starting."""
    draw(node.root)
    (node.root / "dev/dri/card1").unlink()
    node.backend.devices()
    assert display(node.backend.edits("gpu-0")) == [("/dev/dri/renderD128", 226, 128)]


def test_a_library_with_a_version_of_its_own_is_mounted(tmp_path: Path) -> None:
    """libnvidia-nvvm70 does not carry the module's version; libraries that are not the driver's stay out."""
    host(tmp_path)
    (tmp_path / UBUNTU / "libnvidia-nvvm70.so.4").touch()
    (tmp_path / UBUNTU / "libnvidia-other.so.4").touch()
    inside = {mount.container_path for mount in DriverFiles(tmp_path).edits().mounts}
    assert f"/{UBUNTU}/libnvidia-nvvm70.so.4" in inside
    assert f"/{UBUNTU}/libnvidia-other.so.4" not in inside
    assert f"/{UBUNTU}/libcuda.so.{VERSION}" in inside


def test_device_files_are_not_made_in_containers_where_the_toolkit_can_prevent_it(tmp_path: Path) -> None:
    """Releases before 1.17.8 do not know the hook, and a container with it would not start."""
    for number, (program, text, knows) in enumerate(
        (
            ("usr/bin/nvidia-cdi-hook", b"\0disable-device-node-modification\0", True),
            ("usr/bin/nvidia-cdi-hook", b"\0create-symlinks\0", False),
            ("usr/local/nvidia/toolkit/nvidia-cdi-hook.real", b"\0disable-device-node-modification\0", True),
        )
    ):
        root = tmp_path / str(number)
        host(root, tools=[program.removesuffix(".real")])
        (root / program).write_bytes(text)
        hooks = DriverFiles(root).edits().hooks
        assert (hooks[-1].args[-1] == "disable-device-node-modification") is knows
        assert {hook.path for hook in hooks} == {f"/{program.removesuffix('.real')}"}


def test_files_of_the_host_are_device_files_by_their_numbers(tmp_path: Path) -> None:
    """A number that cannot be read leaves the file out."""
    draw(tmp_path)
    (tmp_path / f"sys/bus/pci/devices/{BUS}/drm/card1/dev").write_text("", encoding="ascii")
    nodes, made = display_files(tmp_path, BUS)
    assert nodes == (DeviceNode("/dev/dri/renderD128", major=226, minor=128),)
    assert made == (("../renderD128", f"/dev/dri/by-path/pci-{BUS}-render"),)
