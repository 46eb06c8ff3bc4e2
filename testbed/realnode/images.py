"""Container images without a registry.

In: the inspector program. Out: a docker archive with two images.

`IMAGE` prints what a container was given and sleeps; `PAUSE` is the pods' sandbox. Both are one static Go program.
"""

import asyncio
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import platformdirs

from testbed.errors import Unavailable

IMAGE: Final = "testbed.apportion.dev/inspector:1"
PAUSE: Final = "testbed.apportion.dev/pause:1"
_SOURCES = Path(__file__).parent / "inspector"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


async def archive() -> Path:
    """Return the archive, built if need be. Raises Unavailable without Go, or with Go's own words."""
    place = _place()
    if place.is_file():
        return place
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        program = await _build(Path(scratch) / "inspector")
        fresh = Path(scratch) / "images.tar"
        _write(fresh, program.read_bytes())
        return fresh.replace(place)


def _place() -> Path:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(_SOURCES.iterdir()):
        digest.update(file.read_bytes())
    return platformdirs.user_cache_path("apportion") / "testbed" / "images" / f"{digest.hexdigest()[:16]}.tar"


async def _build(target: Path) -> Path:
    go = shutil.which("go")
    if go is None:
        raise Unavailable("the containers' program is built with Go, and there is no `go` on the PATH")
    process = await asyncio.create_subprocess_exec(
        go, "build", "-trimpath", "-ldflags", "-s -w", "-o", target, ".",
        cwd=_SOURCES, env={**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"},
        stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    _, said = await process.communicate()
    if process.returncode != 0:
        raise Unavailable(f"go build of the containers' program: {said.decode(errors='replace').strip()}")
    return target


def _write(path: Path, program: bytes) -> None:
    layer = _tar({"inspector": (program, 0o755)})
    files = {"layer.tar": (layer, 0o644)}
    manifest = []
    for name, words in ((IMAGE, ["/inspector"]), (PAUSE, ["/inspector", "pause"])):
        config = json.dumps(_config(layer, words)).encode()
        file = f"{hashlib.sha256(config).hexdigest()}.json"
        files[file] = (config, 0o644)
        manifest.append({"Config": file, "RepoTags": [name], "Layers": ["layer.tar"]})
    files["manifest.json"] = (json.dumps(manifest).encode(), 0o644)
    path.write_bytes(_tar(files))


def _config(layer: bytes, words: Sequence[str]) -> dict[str, object]:
    machine = platform.machine()
    return {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
        "config": {"Entrypoint": list(words), "Env": ["PATH=/"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }


def _tar(files: dict[str, tuple[bytes, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as content:
        for name, (data, mode) in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            content.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
