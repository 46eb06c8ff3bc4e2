"""The peer: kube-scheduler's allocator in Go, built from the shared folder and run on one core.

In: a scenario file. Out: its figures, with the same keys as ours.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from apportion.errors import BrokenInput, NotReady
from bench.folders import cache, shared


@dataclass(frozen=True, slots=True)
class Peer:
    """The built program."""

    program: Path

    @classmethod
    def build(cls) -> "Peer":
        """Build the peer, or reuse an earlier build. Raises BrokenInput without its source, NotReady without a Go toolchain."""
        source = shared("peer")
        stamp = hashlib.sha256()
        for name in ("main.go", "go.mod", "go.sum"):
            stamp.update((source / name).read_bytes())
        program = cache() / f"peer-{stamp.hexdigest()[:16]}"
        if not program.exists():
            go = shutil.which("go")
            if go is None:
                raise NotReady("the peer is written in Go and there is no `go` on the PATH")
            scratch = program.with_suffix(f".{os.getpid()}")
            command = [go, "build", "-buildvcs=false", "-o", str(scratch), "."]
            made = subprocess.run(
                command, cwd=source, env={**os.environ, "GOWORK": "off"}, check=False, capture_output=True
            )
            if made.returncode:
                raise NotReady(f"go build of {source} failed: {made.stderr.decode(errors='replace')[-500:]}")
            scratch.replace(program)
        return cls(program)

    def run(self, file: Path, *arguments: str, first_feasible: bool = True) -> Mapping[str, Any]:
        """Allocate a scenario on one thread; return the figures.

        `first_feasible`: take the first node that fits; False: the peer's default mode, which collects several feasible nodes as
        kube-scheduler does.
        """
        mode = ("-first-feasible",) if first_feasible else ()
        made = subprocess.run(
            [str(self.program), *mode, *arguments, str(file)],
            env={**os.environ, "GOMAXPROCS": "1"},
            check=False,
            capture_output=True,
        )
        if made.returncode:
            raise BrokenInput(made.stderr.decode(errors="replace").strip(), field=str(file))
        return figures(made.stdout)


def figures(line: bytes) -> Mapping[str, Any]:
    """Decode one JSON line of figures."""
    found: Mapping[str, Any] = orjson.loads(line)
    return found
