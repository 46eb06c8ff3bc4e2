"""All files of a version.

In: a commit, kubectl, where image and files will be. Out: the files in a folder; the same commit and options give the same bytes.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from testbed.artifacts import plugin
from testbed.artifacts.archives import ArchivedFile, tar_gz
from testbed.artifacts.bom import bill_of_materials
from testbed.artifacts.commit import Commit
from testbed.artifacts.provenance import provenance
from testbed.errors import TestbedError

SUMS = "SHA256SUMS"
_LOCKS = ("requirements/runtime.txt", "requirements/dev.txt")


@dataclass(frozen=True, slots=True)
class Published:
    """Where things will be that files of a version name."""

    image: str = "apportion"
    """Repository of the image, without a tag."""
    url: str = "https://example.com/apportion"
    """Address of the folder with the files of this version."""
    homepage: str = "https://example.com/apportion"


def make(commit: Commit, kubectl: Path, published: Published, out: Path) -> list[Path]:
    """Write the files of a version into an empty folder. Raises TestbedError: it is not empty, or a step fails."""
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise TestbedError(f"{out} is not empty: the files of a version are made into a folder of their own")
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder)
        commit.extract(source)
        files = _files(source, commit, kubectl, published)
        materials = {name: _sha256((source / name).read_bytes()) for name in _LOCKS}
    digests = {name: _sha256(content) for name, content in files.items()}
    statement = provenance(digests, commit, asdict(published), materials)
    files["provenance.intoto.json"] = _json(statement)
    lines = [f"{_sha256(content)}  {name}\n" for name, content in sorted(files.items())]
    files[SUMS] = "".join(lines).encode()
    for name, content in files.items():
        (out / name).write_bytes(content)
    return sorted(out / name for name in files)


def _files(source: Path, commit: Commit, kubectl: Path, published: Published) -> dict[str, bytes]:
    """Return what people use, by name."""
    files = _packages(source, commit)
    (wheel,) = [name for name in files if name.endswith(".whl")]
    version = wheel.split("-")[1]
    lock = (source / "requirements/runtime.txt").read_bytes()
    license_text = (source / "LICENSE").read_bytes()
    files["install.yaml"] = _manifests(source, kubectl, published)
    files[f"apportion-chart-{version}.tgz"] = _chart(source, commit, published)
    files["bom.cdx.json"] = _json(bill_of_materials(lock.decode(), version))
    packed = plugin.archive(wheel, files[wheel], lock, license_text, version, commit.seconds)
    name = f"{plugin.NAME}-{version}.tar.gz"
    files[name] = packed
    described = plugin.manifest(packed, f"{published.url}/{name}", published.homepage, version)
    files["krew.yaml"] = yaml.safe_dump(described, sort_keys=False, width=160).encode()
    return files


def _packages(source: Path, commit: Commit) -> dict[str, bytes]:
    """Return wheel and source distribution; the build puts the commit's time into them."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(commit.seconds)}
        command = [sys.executable, "-m", "hatchling", "build", "--directory", folder]
        done = subprocess.run(
            command, cwd=source, env=environment, check=False, capture_output=True, text=True
        )
        if done.returncode:
            raise TestbedError(f"hatchling: {done.stderr.strip() or done.stdout.strip()}")
        return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def _manifests(source: Path, kubectl: Path, published: Published) -> bytes:
    """Return the objects of `kubectl apply -k manifests/`, with the image where it is published."""
    kustomization = {
        "resources": ["manifests"],
        "images": [{"name": "apportion", "newName": published.image}],
    }
    (source / "kustomization.yaml").write_text(yaml.safe_dump(kustomization), encoding="utf-8")
    done = subprocess.run([kubectl, "kustomize", str(source)], check=False, capture_output=True)
    if done.returncode:
        raise TestbedError(f"kustomize: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout


def _chart(source: Path, commit: Commit, published: Published) -> bytes:
    """Return the chart as `helm package` makes it, but for the times."""
    folder = source / "charts/apportion"
    files = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            content = path.read_bytes()
            if path == folder / "values.yaml":
                content = content.replace(
                    b"  repository: apportion\n", f"  repository: {published.image}\n".encode()
                )
            files[f"apportion/{path.relative_to(folder)}"] = ArchivedFile(content)
    return tar_gz(files, commit.seconds)


def _json(value: object) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
