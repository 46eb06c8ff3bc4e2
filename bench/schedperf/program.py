"""Upstream's benchmark as a test binary, with the bridges of the shared folder.

In: `shared/schedperf`, a Go toolchain. Out: a program that is built once into the user's cache, and one run of it.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from apportion.errors import NotReady
from bench.folders import cache, shared
from bench.schedperf.cases import Workload
from testbed.installation import REPOSITORY

_SOURCES: Final = ("apportion_test.go", "dra_test.go", "go.mod", "go.sum", "build.sh")
_MODULE: Final = "k8s.io/kubernetes"
_MOST_SAID: Final = 2000
"""Characters of a failed run's output that are shown."""


class Mode(StrEnum):
    """Who allocates; `shared/schedperf/README.md` says more."""

    KUBE_SCHEDULER = "stock"
    """Upstream as it is."""
    GATE = "gate"
    """The operator; pods with claims wait behind its scheduling gate."""
    TAINT = "taint"
    """The operator; a DeviceTaintRule keeps kube-scheduler's allocator off, and there are no gates."""
    IDLE = "idle"
    """kube-scheduler; the operator runs and manages nothing."""


@dataclass(frozen=True, slots=True)
class Program:
    """The built test binary, and where Kubernetes' source is."""

    binary: Path
    kubernetes: Path
    source: Path

    @classmethod
    def path(cls) -> Path:
        """Return where the binary is kept. Raises BrokenInput without its source."""
        source = shared("schedperf")
        stamp = hashlib.sha256()
        for name in _SOURCES:
            stamp.update((source / name).read_bytes())
        return cache() / f"schedperf-{stamp.hexdigest()[:16]}.test"

    @classmethod
    def build(cls) -> "Program":
        """Build it, or reuse an earlier build; minutes the first time.

        Raises BrokenInput without its source, NotReady without a Go toolchain or when the build fails.
        """
        binary, source = cls.path(), shared("schedperf")
        if shutil.which("go") is None:
            raise NotReady("scheduler_perf is written in Go and there is no `go` on the PATH")
        if not binary.exists():
            scratch = binary.with_suffix(f".{os.getpid()}")
            made = _go([str(source / "build.sh"), str(scratch)], source)
            if made.returncode:
                raise NotReady(f"go test -c of {source} failed: {_tail(made.stdout + made.stderr)}")
            scratch.replace(binary)
        where = _go(["go", "list", "-m", "-f", "{{.Dir}}", _MODULE], source)
        if where.returncode or not where.stdout.strip():
            raise NotReady(f"where is {_MODULE}? {_tail(where.stdout + where.stderr)}")
        return cls(binary, Path(where.stdout.strip()), source)

    def run(self, workload: Workload, mode: Mode, out: Path, *, etcd: Path, patience: float) -> str:
        """Run one workload in one mode; upstream's files are left in `out`. Returns "", or why it failed.

        `patience` is how many seconds the pods may take, `etcd` the folder of etcd.
        """
        environment: Mapping[str, str] = {
            **os.environ,
            "SCHEDPERF_OUT": str(out),
            "SCHEDPERF_ETCD": str(etcd),
            "SCHEDPERF_TIMEOUT": f"{patience:.0f}s",
            "SCHEDPERF_ALLOCATOR": workload.allocator,
            "APPORTION_ROOT": str(REPOSITORY),
            "APPORTION_PYTHON": sys.executable,
        }
        command = [self.source / "run.sh", self.binary, mode.value, workload.suite, workload.pattern]
        out.mkdir(parents=True, exist_ok=True)
        output = out / "output.txt"
        with output.open("wb") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        try:
            process.wait()
        finally:
            # A test that panics leaves etcd and the operator behind; so does a Ctrl-C.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return _tail(output.read_text(errors="replace")) if process.returncode else ""


def _go(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "GOWORK": "off"}
    return subprocess.run(command, cwd=folder, env=environment, check=False, capture_output=True, text=True)


def _tail(text: str) -> str:
    return text.strip()[-_MOST_SAID:]
