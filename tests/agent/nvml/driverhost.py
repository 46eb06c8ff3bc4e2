"""A host's file system with the user side of NVIDIA's driver."""

from collections.abc import Sequence
from pathlib import Path

VERSION = "999.10.01"
UBUNTU = "usr/lib/x86_64-linux-gnu"


def host(
    root: Path,
    folder: str = UBUNTU,
    *,
    version: str = VERSION,
    module: str = VERSION,
    tools: Sequence[str] = ("usr/bin/nvidia-cdi-hook",),
) -> Path:
    """Lay out a host with a driver; the version is one that nobody can have written down."""
    libraries = root / folder
    libraries.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler"):
        (libraries / f"{name}.so.{version}").touch()
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
    (libraries / "libcuda.so").symlink_to("libcuda.so.1")
    (libraries / "libcudart.so.12").touch()
    if module:
        module_folder = root / "sys/module/nvidia"
        module_folder.mkdir(parents=True)
        (module_folder / "version").write_text(f"{module}\n", encoding="ascii")
    for name in ("usr/bin/nvidia-smi", *tools):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root
