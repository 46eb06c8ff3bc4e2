"""A release site on this machine, and the programs and archives that it serves."""

import asyncio
import hashlib
import io
import os
import tarfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from rich.console import Console

from testbed.binaries.binaries import Provider
from testbed.binaries.cache import Cache
from testbed.binaries.gobuild import GoBuild
from testbed.binaries.local import Assets, SearchPath
from testbed.binaries.release import Release

VERSION = "1.37.0"
SYSTEM_PATH = "/usr/bin:/bin"


def script(version: str, origin: str) -> str:
    return f"#!/bin/sh\n# from {origin}\necho Kubernetes v{version}\n"


def program_in(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text(script(version, str(folder)))
    program.chmod(0o755)
    return program


@dataclass
class Site:
    """A release site on this machine: files by path, and how often each was asked for."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    address: str = ""

    def publish(self, name: str, content: bytes, *, checksum: str | None = None) -> None:
        machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        path = f"/release/v{VERSION}/bin/linux/{machine}/{name}"
        self.files[path] = content
        self.files[f"{path}.sha256"] = (checksum or hashlib.sha256(content).hexdigest()).encode()

    async def answer(self, request: web.Request) -> web.Response:
        self.asked[request.path.rpartition("/")[2]] += 1
        if request.path not in self.files:
            return web.Response(status=404)
        await asyncio.sleep(0.05)
        return web.Response(body=self.files[request.path])


def provider_in(tmp_path: Path, **environment: str) -> Provider:
    """Return the usual sources with an empty cache, no Go, and nothing on the PATH but the system's programs."""
    environment = {"PATH": SYSTEM_PATH, **environment}
    cache = Cache(tmp_path / "cache")
    return Provider(
        finders=(Assets(environment), SearchPath(environment), cache),
        makers=(Release(environment), GoBuild({**environment, "PATH": environment.get("GO_PATH", "")})),
        cache=cache,
    )


async def provided(provider: Provider, name: str = "kube-scheduler") -> tuple[Path, str]:
    found = await provider.provide(VERSION, [name], Console(quiet=True))
    return found[name], found.sources[name]


def archive(member: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as made:
        entry = tarfile.TarInfo(member)
        entry.size = len(content)
        made.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
