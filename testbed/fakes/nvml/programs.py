"""The programs of a fake NVIDIA driver on a host: nvidia-smi and nvidia-cuda-mps-control, and a library folder that belongs to them.

In: the folder that stands for the host's `/`. Out: files where a driver's package puts them.
"""

import sys
from pathlib import Path

_FOLDER = "usr/lib/x86_64-linux-gnu"
_HERE = Path(__file__).parents[3]
PROGRAMS = {"nvidia-smi": "testbed.fakes.nvml.smi", "nvidia-cuda-mps-control": "testbed.fakes.mps"}
"""Modules; they start often, and need nothing that is installed."""


def install(root: Path, version: str = "570.86.15", *, programs: tuple[str, ...] = tuple(PROGRAMS)) -> None:
    """Install the driver's user side: empty libraries, which a loader skips, and these programs."""
    libraries = root / _FOLDER
    libraries.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda", "libnvidia-ml"):
        (libraries / f"{name}.so.{version}").touch()
        (libraries / f"{name}.so.1").unlink(missing_ok=True)
        (libraries / f"{name}.so.1").symlink_to(f"{name}.so.{version}")
    (root / "usr/bin").mkdir(parents=True, exist_ok=True)
    for name in programs:
        path = root / "usr/bin" / name
        path.write_text(
            f"#!{sys.executable} -SE\nimport sys\nsys.path.insert(0, {str(_HERE)!r})\n"
            f"from {PROGRAMS[name]} import main\nsys.exit(main())\n",
            encoding="utf-8",
        )
        path.chmod(0o755)
