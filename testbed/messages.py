"""Generates the gRPC messages.

In: our own .proto files. Out: Python modules and their type stubs.
"""

import importlib.resources
import subprocess
import sys
from pathlib import Path

from testbed.errors import TestbedError

ROOT = Path(__file__).parent.parent / "operator"
FOLDER = ROOT / "apportion" / "agent" / "proto"


class GenerationError(TestbedError):
    """protoc refused; its own text is on stderr."""


def generate(out: Path) -> list[Path]:
    """Write `*_pb2.py` and `*_pb2.pyi` for every .proto file below `out`, a folder laid out like `operator/`.

    Returns the files written. Raises GenerationError when protoc does not accept a file.
    """
    sources = sorted(FOLDER.glob("*.proto"))
    known = importlib.resources.files("grpc_tools") / "_proto"
    names = [source.relative_to(ROOT).as_posix() for source in sources]
    arguments = [f"-I{ROOT}", f"-I{known}", f"--python_out={out}", f"--pyi_out={out}", *names]
    # In a process of its own: it brings a protobuf in C++, which may be loaded in another version already.
    done = subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *arguments], check=False)
    if done.returncode != 0:
        raise GenerationError(f"protoc does not accept one of {', '.join(names)}")
    target = out / FOLDER.relative_to(ROOT)
    return [target / f"{source.stem}_pb2{ending}" for source in sources for ending in (".py", ".pyi")]
