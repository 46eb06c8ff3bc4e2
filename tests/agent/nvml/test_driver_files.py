"""What a CUDA container gets of the driver beside device files: found on the host, whatever its version and layout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.agent.backends import backends
from apportion.agent.cdi import Injection, spec
from apportion.agent.devices.nvml.driverfiles import DriverFiles
from apportion.agent.devices.values import Edits, Hook, Mount
from apportion.agent.settings import AgentOptions
from tests.agent.nvml.driverhost import UBUNTU, VERSION, host
from tests.agent.nvml.nodes import Node


def mounted(edits: Edits) -> dict[str, str]:
    """Return what is mounted where: host paths by container path."""
    return {mount.container_path: mount.host_path for mount in edits.mounts}


def test_the_libraries_of_the_loaded_module_are_mounted(tmp_path: Path) -> None:
    """Everything that carries its version, and the tools; the host's other libraries are not."""
    edits = DriverFiles(host(tmp_path)).edits()
    libraries = {
        f"/{UBUNTU}/{name}.so.{VERSION}" for name in ("libcuda", "libnvidia-ml", "libnvidia-ptxjitcompiler")
    }
    assert set(mounted(edits)) == {*libraries, "/usr/bin/nvidia-smi"}
    assert all(inside == outside for inside, outside in mounted(edits).items())
    assert {mount.options for mount in edits.mounts} == {("ro", "nosuid", "nodev", "rbind", "rprivate")}
    assert edits.warning == ""


def test_hooks_make_the_hosts_links_and_the_loaders_cache(tmp_path: Path) -> None:
    """Only subcommands that every release of NVIDIA's toolkit knows: an unknown one would keep containers from starting."""
    links, cache = DriverFiles(host(tmp_path)).edits().hooks
    assert links.path == "/usr/bin/nvidia-cdi-hook"
    assert links.args[:2] == ("nvidia-cdi-hook", "create-symlinks")
    assert f"libcuda.so.{VERSION}::/{UBUNTU}/libcuda.so" in links.args
    assert f"libnvidia-ml.so.{VERSION}::/{UBUNTU}/libnvidia-ml.so.1" in links.args
    assert cache == Hook(
        "/usr/bin/nvidia-cdi-hook", ("nvidia-cdi-hook", "update-ldcache", "--folder", f"/{UBUNTU}")
    )


def test_the_older_toolkit_is_understood(tmp_path: Path) -> None:
    """Before it had a program of its own for hooks."""
    host(tmp_path, tools=["usr/local/nvidia/toolkit/nvidia-ctk"])
    hooks = DriverFiles(tmp_path).edits().hooks
    assert {hook.path for hook in hooks} == {"/usr/local/nvidia/toolkit/nvidia-ctk"}
    assert [hook.args[:3] for hook in hooks] == [
        ("nvidia-ctk", "hook", "create-symlinks"),
        ("nvidia-ctk", "hook", "update-ldcache"),
    ]


def test_without_the_toolkit_links_are_mounts_and_a_warning_says_so(tmp_path: Path) -> None:
    """The container finds libcuda.so.1 all the same, if its loader looks there."""
    edits = DriverFiles(host(tmp_path, tools=[])).edits()
    assert edits.hooks == ()
    assert mounted(edits)[f"/{UBUNTU}/libcuda.so.1"] == f"/{UBUNTU}/libcuda.so.{VERSION}"
    assert mounted(edits)[f"/{UBUNTU}/libcuda.so"] == f"/{UBUNTU}/libcuda.so.{VERSION}"
    assert "neither nvidia-cdi-hook nor nvidia-ctk" in edits.warning


def test_a_driver_in_a_container_of_its_own_is_found(tmp_path: Path) -> None:
    """The GPU operator installs below /run/nvidia/driver; in containers it stands where a driver stands."""
    host(tmp_path, f"run/nvidia/driver/{UBUNTU}", tools=["usr/bin/nvidia-cdi-hook"])
    edits = DriverFiles(tmp_path).edits()
    assert (
        mounted(edits)[f"/{UBUNTU}/libcuda.so.{VERSION}"]
        == f"/run/nvidia/driver/{UBUNTU}/libcuda.so.{VERSION}"
    )
    assert edits.hooks[-1].args[-1] == f"/{UBUNTU}"


def test_libraries_of_another_version_than_the_modules_are_not_used(tmp_path: Path) -> None:
    """An update without a reboot: they would fail in the container, and less clearly."""
    edits = DriverFiles(host(tmp_path, module="998.1")).edits()
    assert edits.mounts == ()
    assert "no libcuda.so.998.1" in edits.warning


def test_a_host_that_names_no_version_is_read_by_its_links(tmp_path: Path) -> None:
    """Absolute ones too, which start at the host's root and not at that of the agent's container."""
    host(tmp_path, "usr/lib64", module="")
    link = tmp_path / "usr/lib64/libcuda.so.1"
    link.unlink()
    link.symlink_to(f"/usr/lib64/libcuda.so.{VERSION}")
    assert f"/usr/lib64/libcuda.so.{VERSION}" in mounted(DriverFiles(tmp_path).edits())


def test_the_kernels_own_words_give_the_version(tmp_path: Path) -> None:
    """Both flavours of the module write their line differently."""
    for number, line in enumerate(
        (
            f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {VERSION}  Tue May  2 2026\n",
            f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {VERSION}  Release Build\n",
        )
    ):
        root = host(tmp_path / str(number), module="")
        host(root, "usr/lib64", version="1.2.3", module="", tools=[])
        proc = root / "proc/driver/nvidia"
        proc.mkdir(parents=True)
        (proc / "version").write_text(line, encoding="ascii")
        assert f"/{UBUNTU}/libcuda.so.{VERSION}" in mounted(DriverFiles(root).edits())


def test_sockets_of_the_drivers_daemons_come_along(tmp_path: Path) -> None:
    """They are written to, so they are not read-only."""
    host(tmp_path)
    (tmp_path / "run/nvidia-persistenced").mkdir(parents=True)
    (tmp_path / "run/nvidia-persistenced/socket").touch()
    path = "/run/nvidia-persistenced/socket"
    wanted = Mount(path, path, ("nosuid", "nodev", "rbind", "rprivate", "noexec"))
    assert wanted in DriverFiles(tmp_path).edits().mounts


def test_an_updated_driver_is_seen(tmp_path: Path) -> None:
    """The next prepare has the new libraries; nothing is remembered beyond what is on the host."""
    files = DriverFiles(host(tmp_path))
    files.edits()
    shutil.rmtree(tmp_path / "sys")
    host(tmp_path, "usr/lib64", version="1000.1", module="1000.1")
    assert "/usr/lib64/libcuda.so.1000.1" in mounted(files.edits())


def test_a_host_without_a_driver_says_so_and_keeps_the_device_files(node: Node) -> None:
    """Environment and device files are injected all the same."""
    card, _ = node.backend.devices()
    edits = node.backend.edits(card.name)
    assert edits.nodes
    assert edits.env
    assert "no libcuda.so.1 in the usual library folders" in edits.warning


def test_every_device_of_a_claim_has_the_driver_once(tmp_path: Path) -> None:
    """Mounts and hooks stand in the file's common part: hooks must not run once per device."""
    edits = DriverFiles(host(tmp_path)).edits()
    rows = [Injection(name, ("r",), name, False, edits) for name in ("gpu-0", "gpu-1")]  # noqa: FBT003
    made = spec("d", "c", rows)
    assert len(made["containerEdits"]["hooks"]) == 2
    assert len(made["containerEdits"]["mounts"]) == len(edits.mounts)
    assert made["containerEdits"]["hooks"][1] == {
        "hookName": "createContainer",
        "path": "/usr/bin/nvidia-cdi-hook",
        "args": ["nvidia-cdi-hook", "update-ldcache", "--folder", f"/{UBUNTU}"],
    }
    assert all("mounts" not in device["containerEdits"] for device in made["devices"])


@pytest.mark.slow
def test_a_container_without_the_library_uses_the_hosts(node: Node) -> None:
    """The agent's image has none: it loads that one file from the host, wherever it is there."""
    version = "570.86.15"
    host(node.root, "usr/lib64", version=version, module=version)
    (node.root / f"usr/lib64/libnvidia-ml.so.{version}").unlink()
    shutil.copy(node.fake.library, node.root / f"usr/lib64/libnvidia-ml.so.{version}")
    program = (
        "import json, sys; from pathlib import Path; from apportion.agent.devices.nvml.backend import NvmlBackend\n"
        "print(json.dumps([card.name for card in NvmlBackend(Path(sys.argv[1])).devices()]))"
    )
    environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
    environment |= {"APPORTION_FAKE_NVML": str(node.fake.path), "PYTHONPATH": "operator"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(node.root)],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout.splitlines()[-1]) == ["gpu-0", "gpu-1"]


def test_a_driver_where_gke_installs_it_is_found(tmp_path: Path) -> None:
    """Container-Optimized OS has its system read-only; containers see the driver as if it were installed as elsewhere."""
    place = "home/kubernetes/bin/nvidia"
    host(tmp_path, f"{place}/lib64", tools=[])
    (tmp_path / place / "bin").mkdir()
    (tmp_path / place / "bin/nvidia-smi").touch()
    edits = DriverFiles(tmp_path).edits()
    assert Mount(f"/{place}/lib64/libcuda.so.{VERSION}", f"/lib64/libcuda.so.{VERSION}") in edits.mounts
    assert Mount(f"/{place}/bin/nvidia-smi", "/usr/bin/nvidia-smi") in edits.mounts


def test_an_administrator_says_where_the_driver_is(node: Node) -> None:
    """Then it is looked for there only, also when another one is in a usual place."""
    host(node.root, module="")
    host(node.root, "opt/driver/usr/lib64", tools=[])
    options = AgentOptions("n", "nvml", host_root=node.root, nvidia_driver_root=Path("/opt/driver"))
    (backend,) = backends(options)
    edits = backend.edits(backend.devices()[0].name)
    wanted = Mount(f"/opt/driver/usr/lib64/libcuda.so.{VERSION}", f"/usr/lib64/libcuda.so.{VERSION}")
    assert wanted in edits.mounts
    assert not any(mount.host_path.startswith(f"/{UBUNTU}") for mount in edits.mounts)
    assert "no libcuda.so" in DriverFiles(node.root, Path("/nowhere")).edits().warning


@pytest.mark.parametrize("command", ["agent", "node"])
def test_a_relative_driver_root_is_refused(command: str) -> None:
    """Relative to what, nobody could say."""
    words = {
        "agent": ["agent", "--node-name", "n"],
        "node": ["node", "--nvidia-driver-root", "opt", "discover"],
    }
    given = words[command] if command == "node" else [*words[command], "--nvidia-driver-root", "opt"]
    done = CliRunner().invoke(app, given)
    assert done.exit_code == 2
    assert "--nvidia-driver-root" in done.output
