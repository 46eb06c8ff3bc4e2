"""The image, without a container engine: the Dockerfile's steps are done in folders, and what comes out runs as the manifests run it."""

import sys
from pathlib import Path

import pytest

from apportion import __version__
from tests.install.imagesteps import Stage, build, unsupported

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux" or bool(unsupported()), reason="the steps need root on Linux"),
]


@pytest.fixture(scope="module")
def image(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    """Give the last stage of the build."""
    return build(tmp_path_factory.mktemp("image"), wheels)


@pytest.mark.timeout(900)
def test_every_step_of_the_dockerfile_can_be_done(image: Stage) -> None:
    """What is in the image is what the product needs: its packages and source, compiled; nothing of the checkout else."""
    assert image.user == "65532:65532"
    assert {path.name for path in (image.root / "app").iterdir() if path.is_file()} == {
        "LICENSE",
        "pyvenv.cfg",
    }
    source = image.root / "app/source/apportion"
    assert (source / "agent/data").is_dir()
    compiled = {path.name.partition(".")[0] for path in source.glob("__pycache__/*.pyc")}
    assert compiled == {path.stem for path in source.glob("*.py")}
    installed = {path.name for path in (image.root / "app/lib").glob("python*/site-packages/*.dist-info")}
    assert len(installed) > 40
    assert not any(name.startswith(("pytest", "apportion")) for name in installed)


@pytest.mark.timeout(900)
def test_it_runs_as_nobody_on_a_filesystem_that_is_read_only(image: Stage) -> None:
    """As the operator's pod: nothing is writable, and nothing needs to be."""
    written = image.probe("/bin/sh", "-c", "id -u; touch /tmp/x /app/x 2>&1; true")
    assert written.stdout.startswith("65532\n")
    assert written.stdout.count("Read-only file system") == 2
    said = image.container("version")
    assert (said.returncode, said.stdout, said.stderr) == (0, f"{__version__}\n", "")


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "role",
    [["operator"], ["agent", "--node-name=n", "--backend=nvml", "--instance=i"]],
    ids=lambda role: role[0],
)
def test_both_roles_get_as_far_as_the_cluster_that_is_not_there(image: Stage, role: list[str]) -> None:
    """Every module and library that they start with is in the image; what is missing is said without a stack trace."""
    ended = image.container(*role)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "error:" in ended.stderr
