"""Upstream's allocator and selector compiler as a program. In: worlds and selectors. Out: upstream's answers."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import platformdirs
import pytest

Json = dict[str, Any]
_MODULE = Path(__file__).parent / "program"


class Oracle:
    """The built program."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def ask(self, requests: Sequence[Json]) -> list[Json]:
        """Return one answer for each request, in order."""
        lines = b"".join(orjson.dumps(request) + b"\n" for request in requests)
        done = subprocess.run([self._program], input=lines, capture_output=True, check=True)
        answers = [orjson.loads(line) for line in done.stdout.splitlines()]
        assert len(answers) == len(requests), done.stderr.decode()
        return answers


def build() -> Oracle:
    """Build the program with the user's Go, once for each state of its source; skips where there is no Go."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("upstream's allocator is built with Go, and there is no `go` on the PATH")
    source = b"".join((_MODULE / name).read_bytes() for name in ("main.go", "go.mod", "go.sum"))
    place = platformdirs.user_cache_path("apportion") / "oracle" / hashlib.sha256(source).hexdigest()[:16]
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
            made = Path(scratch) / "oracle"
            environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}
            subprocess.run(
                [go, "build", "-trimpath", "-o", made, "."], cwd=_MODULE, env=environment, check=True
            )
            made.replace(place)
    return Oracle(place)
