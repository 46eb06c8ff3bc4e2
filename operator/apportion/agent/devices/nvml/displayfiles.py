"""The DRM files of a GPU, which programs that draw open beside the GPU's own file.

In: a PCI bus id, the root of the host's file system. Out: device files, and links to them by the GPU's place. Rules: NVIDIA's container
toolkit d34b3046: every child of /sys/bus/pci/devices/<bus>/drm that is in /dev/dri (internal/info/drm/drm_devices.go:27), for whole GPUs and for
profiles with the attribute gfx (internal/platform-support/dgpu/nvml.go:35-66, 114-142), links of by-path/ (by-path-hooks.go:90-129).
"""

import re
from pathlib import Path

from apportion.agent.devices.values import DeviceNode

DisplayLink = tuple[str, str]
"""What a link holds, and where it is."""
_FOLDER = "/dev/dri"


def draws(profile: str) -> bool:
    """Say whether partitions of a profile can be used for graphics (`1g.24gb+gfx`)."""
    return "+gfx" in profile


def display_files(root: Path, bus_id: str) -> tuple[tuple[DeviceNode, ...], tuple[DisplayLink, ...]]:
    """Return a GPU's DRM files that the host has, and the links to them; none where no DRM driver is loaded."""
    try:
        folders = sorted((root / "sys/bus/pci/devices" / bus_id / "drm").iterdir())
    except OSError:
        return (), ()
    nodes = tuple(
        DeviceNode(f"{_FOLDER}/{folder.name}", major=numbers[0], minor=numbers[1])
        for folder in folders
        if (root / f"dev/dri/{folder.name}").exists() and (numbers := _numbers(folder / "dev"))
    )
    links = (f"{_FOLDER}/by-path/pci-{bus_id}-{kind}" for kind in ("card", "render"))
    there = {node.path.rpartition("/")[2] for node in nodes}
    found = ((_target(root / link.lstrip("/")), link) for link in links)
    return nodes, tuple((target, link) for target, link in found if target.rpartition("/")[2] in there)


def _numbers(file: Path) -> tuple[int, int] | None:
    try:
        found = re.fullmatch(r"(\d+):(\d+)", file.read_text(encoding="ascii").strip())
    except (OSError, UnicodeDecodeError):
        return None
    return (int(found[1]), int(found[2])) if found is not None else None


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""
