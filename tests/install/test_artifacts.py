"""The files of a version: the same each time, whole, and usable as they are."""

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from packaging.markers import Marker
from typer.testing import CliRunner

from apportion import __version__
from testbed.__main__ import app
from testbed.artifacts.bom import bill_of_materials
from testbed.artifacts.commit import commit
from testbed.artifacts.make import SUMS, Published, make
from testbed.binaries import Binaries
from testbed.errors import TestbedError
from tests.install.charts import Helm, keyed
from tests.install.rendered import ROOT, pods

PUBLISHED = Published("r.example.com/apportion", "https://example.com/v1", "https://example.com/apportion")
PLUGIN = f"kubectl-apportion-{__version__}.tar.gz"
CHART = f"apportion-chart-{__version__}.tgz"


@pytest.fixture(scope="module")
def made(binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder with the files of the commit that is checked out."""
    out = tmp_path_factory.mktemp("artifacts")
    make(commit(ROOT, "HEAD"), binaries["kubectl"], PUBLISHED, out)
    return out


def test_two_runs_give_the_same_bytes(made: Path, binaries: Binaries, tmp_path: Path) -> None:
    """Everybody who has the commit can make the files again, and compare."""
    make(commit(ROOT, "HEAD"), binaries["kubectl"], PUBLISHED, tmp_path / "second")
    names = sorted(path.name for path in made.iterdir())
    assert names == sorted(path.name for path in (tmp_path / "second").iterdir())
    differ = [
        name for name in names if (made / name).read_bytes() != (tmp_path / "second" / name).read_bytes()
    ]
    assert differ == []


def test_the_checksums_and_the_provenance_name_every_file(made: Path) -> None:
    """Provenance has every file that people use, checksums have provenance too."""
    names = {path.name for path in made.iterdir()}
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=made, check=True)
    assert {line.split()[1] for line in (made / SUMS).read_text().splitlines()} == names - {SUMS}
    statement = json.loads((made / "provenance.intoto.json").read_text())
    said = {each["name"]: each["digest"]["sha256"] for each in statement["subject"]}
    assert said == {name: _digest(made / name) for name in names - {SUMS, "provenance.intoto.json"}}
    source, *locks = statement["predicate"]["buildDefinition"]["resolvedDependencies"]
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True)
    assert source["digest"] == {"gitCommit": head.stdout.strip()}
    assert [each["name"] for each in locks] == ["requirements/dev.txt", "requirements/runtime.txt"]


def test_manifests_and_chart_install_the_same_published_image(
    made: Path, helm_program: Path, tmp_path: Path
) -> None:
    """The archive is one that Helm takes, and installs what install.yaml does."""
    helm = Helm(helm_program, tmp_path)
    chart = made / CHART
    assert "0 chart(s) failed" in helm.done("lint", "--strict", str(chart))
    text = helm.text({"namespace": {"create": True}}, chart=chart)
    by_helm = keyed([item for item in yaml.safe_load_all(text) if item])
    objects = list(yaml.safe_load_all((made / "install.yaml").read_text()))
    assert by_helm == keyed(objects)
    images = {container["image"] for pod in pods(objects) for container in pod["containers"]}
    assert images == {f"{PUBLISHED.image}:v{__version__}"}


def test_the_plugins_manifest_names_its_archive(made: Path) -> None:
    """By address, digest and program."""
    described = yaml.safe_load((made / "krew.yaml").read_text())
    (platform,) = described["spec"]["platforms"]
    assert described["spec"]["version"] == f"v{__version__}"
    assert platform["uri"] == f"{PUBLISHED.url}/{PLUGIN}"
    assert platform["sha256"] == _digest(made / PLUGIN)
    with tarfile.open(made / PLUGIN) as archive:
        modes = {entry.name: entry.mode for entry in archive}
    assert modes[platform["bin"]] == 0o755
    assert "LICENSE" in modes


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_plugin_installs_itself_once_and_has_what_the_bill_of_materials_says(
    made: Path, wheels: Path, tmp_path: Path
) -> None:
    """From its archive alone and the locked packages; through a link, as krew calls it."""
    with tarfile.open(made / PLUGIN) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    link = tmp_path / "kubectl-apportion"
    link.symlink_to(tmp_path / "store/kubectl-apportion")
    environment = {
        "PATH": os.environ["PATH"],
        "XDG_DATA_HOME": str(tmp_path / "data"),
        "APPORTION_PYTHON": sys.executable,
        "PIP_NO_INDEX": "1",
        "PIP_NO_COMPILE": "1",
        "PIP_FIND_LINKS": str(wheels),
    }
    for said in (f"installing apportion {__version__}", ""):
        ran = subprocess.run([link, "version"], check=False, capture_output=True, text=True, env=environment)
        assert (ran.returncode, ran.stdout) == (0, f"{__version__}\n"), ran.stderr
        assert ran.stderr.startswith(said)
        assert bool(ran.stderr) == bool(said)
    packages = (tmp_path / "data/apportion").glob("*/lib/python*/site-packages/*.dist-info")
    installed = {_normal(path.stem.rpartition("-")[0]): path.stem.rpartition("-")[2] for path in packages}
    document = json.loads((made / "bom.cdx.json").read_text())
    listed = {
        _normal(each["name"]): each["version"]
        for each in document["components"]
        if all(Marker(one["value"]).evaluate() for one in each.get("properties", ()))
    }
    assert listed == {
        name: version for name, version in installed.items() if name not in {"pip", "setuptools", "apportion"}
    }


def test_the_bill_of_materials_has_each_package_with_its_hashes_and_who_needs_it(made: Path) -> None:
    """As many as the lock file has, every reference resolved."""
    document = json.loads((made / "bom.cdx.json").read_text())
    lock = (ROOT / "requirements/runtime.txt").read_text()
    hashes = [each["externalReferences"][0]["hashes"] for each in document["components"]]
    assert sum(map(len, hashes)) == lock.count("--hash=sha256:")
    references = {each["bom-ref"] for each in document["components"]} | {
        document["metadata"]["component"]["bom-ref"]
    }
    needed = {one["ref"]: set(one["dependsOn"]) for one in document["dependencies"]}
    assert set(needed) == references
    assert set().union(*needed.values()) == references - {document["metadata"]["component"]["bom-ref"]}


@pytest.mark.parametrize(("lock", "said"), [("a==1\n", "no hashes for: a"), ("", "no hashes for: anything")])
def test_a_lock_without_hashes_is_no_bill_of_materials(lock: str, said: str) -> None:
    """It would claim what nobody checked."""
    with pytest.raises(ValueError, match=said):
        bill_of_materials(lock, "1")


def test_a_folder_with_files_is_left_alone(binaries: Binaries, tmp_path: Path) -> None:
    """What is published is only what was made."""
    (tmp_path / "x").touch()
    with pytest.raises(TestbedError, match="is not empty"):
        make(commit(ROOT, "HEAD"), binaries["kubectl"], PUBLISHED, tmp_path)


@pytest.mark.slow
def test_a_commit_that_is_not_there_is_named() -> None:
    """In git's words."""
    ran = CliRunner().invoke(app, ["artifacts", "--revision=no-such-commit"])
    assert isinstance(ran.exception, TestbedError)
    assert "no-such-commit" in str(ran.exception)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
