"""Where the programs of a control plane come from, and what is said when they come from nowhere."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from rich.console import Console

from testbed.errors import MissingBinariesError
from testbed.projects import PROJECTS
from tests.testbed.releasesite import (
    SYSTEM_PATH,
    VERSION,
    Site,
    archive,
    program_in,
    provided,
    provider_in,
    script,
)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Serve a release site."""
    site = Site()
    application = web.Application()
    application.router.add_get("/{path:.*}", site.answer)
    async with TestServer(application) as server:
        site.address = str(server.make_url("/"))
        yield site


async def test_the_sources_are_asked_in_order(tmp_path: Path, site: Site) -> None:
    """Assets before PATH before cache before the release site; each is used once those before it have nothing."""
    site.publish("kube-scheduler", script(VERSION, "site").encode())
    assets = program_in(tmp_path / "assets", "kube-scheduler", VERSION)
    on_path = program_in(tmp_path / "path", "kube-scheduler", VERSION)
    provider = provider_in(
        tmp_path,
        KUBEBUILDER_ASSETS=str(tmp_path / "assets"),
        PATH=f"{tmp_path / 'path'}:{SYSTEM_PATH}",
        APPORTION_RELEASE_URL=site.address,
    )
    assert await provided(provider) == (assets, "KUBEBUILDER_ASSETS")
    assets.unlink()
    assert await provided(provider) == (on_path, "PATH")
    on_path.unlink()
    cached = tmp_path / "cache" / VERSION / "kube-scheduler"
    assert await provided(provider) == (cached, "release site")
    assert "# from site" in cached.read_text()
    assert await provided(provider) == (cached, "cache")
    assert site.asked["kube-scheduler"] == 1


@pytest.mark.slow
async def test_a_program_of_another_minor_version_is_passed_over(tmp_path: Path, site: Site) -> None:
    """What lies around on a machine is used only if it is what was asked for; another patch version will do."""
    site.publish("kube-scheduler", script(VERSION, "site").encode())
    program_in(tmp_path / "assets", "kube-scheduler", "1.32.4")
    path = program_in(tmp_path / "path", "kube-scheduler", "1.37.9")
    folders = {"KUBEBUILDER_ASSETS": str(tmp_path / "assets"), "PATH": f"{tmp_path / 'path'}:{SYSTEM_PATH}"}
    provider = provider_in(tmp_path, APPORTION_RELEASE_URL=site.address, **folders)
    assert await provided(provider) == (path, "PATH")
    program_in(tmp_path / "path", "kube-scheduler", "1.36.3")
    assert (await provided(provider))[1] == "release site"


async def test_a_wrong_checksum_is_refused(tmp_path: Path, site: Site) -> None:
    """Nothing of a download that is not what was published reaches the cache."""
    site.publish("kube-scheduler", b"something else", checksum="0" * 64)
    with pytest.raises(MissingBinariesError, match=f"published is {'0' * 64}"):
        await provided(provider_in(tmp_path, APPORTION_RELEASE_URL=site.address))
    assert not [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and path.stat().st_size]


async def test_the_error_lists_what_was_tried_for_each_program(tmp_path: Path, site: Site) -> None:
    """A file that the site lacks does not stop the next program, and every source gives its own reason."""
    site.publish("kube-scheduler", script(VERSION, "site").encode())
    program_in(tmp_path / "path", "kubectl", "1.32.4")
    provider = provider_in(
        tmp_path, APPORTION_RELEASE_URL=site.address, PATH=f"{tmp_path / 'path'}:{SYSTEM_PATH}"
    )
    with pytest.raises(MissingBinariesError) as raised:
        await provider.provide(VERSION, ["kubectl", "kube-scheduler", "kube-apiserver"], Console(quiet=True))
    text = str(raised.value)
    assert "kube-scheduler" not in text, "this one was found"
    for_kubectl, for_apiserver = text.split("kube-apiserver 1.37.0:")
    assert "KUBEBUILDER_ASSETS: not set" in for_kubectl
    assert "kubectl is 1.32.4, wanted is 1.37" in for_kubectl
    for expected in ("PATH: no kube-apiserver", "cache: ", "404 Not Found", "Go is not installed"):
        assert expected in for_apiserver


@pytest.mark.parametrize(
    ("program", "variable", "file", "sums", "member"),
    [
        (
            "ctr",
            "APPORTION_CONTAINERD_RELEASE_URL",
            "v2.3.5/containerd-2.3.5-linux-{arch}.tar.gz",
            "v2.3.5/containerd-2.3.5-linux-{arch}.tar.gz.sha256sum",
            "bin/ctr",
        ),
        ("runc", "APPORTION_RUNC_RELEASE_URL", "v1.3.0/runc.{arch}", "v1.3.0/runc.sha256sum", ""),
        (
            "loopback",
            "APPORTION_CNI_RELEASE_URL",
            "v1.9.1/cni-plugins-linux-{arch}-v1.9.1.tgz",
            "v1.9.1/cni-plugins-linux-{arch}-v1.9.1.tgz.sha256",
            "./loopback",
        ),
    ],
)
async def test_the_programs_of_a_node_come_from_their_projects_releases(
    tmp_path: Path, site: Site, program: str, variable: str, file: str, sums: str, member: str
) -> None:
    """Each project names its files in its own way; what is taken out of an archive is the program alone."""
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    script = b"#!/bin/sh\n"
    content = archive(member, script) if member else script
    path = f"/{file.format(arch=machine)}"
    name = path.rpartition("/")[2]
    site.files[path] = content
    digest = hashlib.sha256(content).hexdigest()
    site.files[f"/{sums.format(arch=machine)}"] = f"{'0' * 64}  other\n{digest} *{name}\n".encode()
    place, source = await provided(provider_in(tmp_path, **{variable: site.address}), program)
    assert source == "release site"
    assert place.read_bytes() == script


async def test_a_containerd_of_another_minor_version_is_passed_over(tmp_path: Path) -> None:
    """The distribution's own lies on many machines; it is not what the node's tests are for."""
    folder = tmp_path / "path"
    folder.mkdir()
    for name, says in (("containerd", "1.7.20"), ("runc", "1.3.5")):
        (folder / name).write_text(f"#!/bin/sh\necho {name} github.com/x/v2 v{says}\n")
        (folder / name).chmod(0o755)
    path = {"PATH": f"{folder}:{SYSTEM_PATH}"}
    nowhere = {"APPORTION_CONTAINERD_RELEASE_URL": "http://127.0.0.1:9"}
    assert await provided(provider_in(tmp_path, **path), "runc") == (folder / "runc", "PATH")
    with pytest.raises(MissingBinariesError, match=r"containerd is 1\.7\.20, wanted is 2\.3"):
        await provided(provider_in(tmp_path, **path, **nowhere), "containerd")


async def test_a_site_that_cannot_be_reached_is_asked_once(tmp_path: Path) -> None:
    """Without a network five programs fail at once, not after five time-outs."""
    provider = provider_in(tmp_path, APPORTION_RELEASE_URL="http://127.0.0.1:9")
    with pytest.raises(MissingBinariesError) as raised:
        await provider.provide(VERSION, ["kubectl", "kube-scheduler"], Console(quiet=True))
    assert str(raised.value).count("not asked again") == 1


@pytest.mark.slow
async def test_two_testbeds_at_once_get_a_program_once(tmp_path: Path, site: Site) -> None:
    """The second one waits for the first and takes its result from the cache."""
    site.publish("kube-scheduler", script(VERSION, "site").encode())
    providers = [provider_in(tmp_path, APPORTION_RELEASE_URL=site.address) for _ in range(2)]
    results = await asyncio.gather(*map(provided, providers))
    assert sorted(source for _, source in results) == ["cache", "release site"]
    assert site.asked["kube-scheduler"] == 1


async def test_the_build_says_what_go_said(tmp_path: Path) -> None:
    """When the last source fails too, the reason is Go's own."""
    go = tmp_path / "go" / "go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho runtime >&2\necho 'disk is full, sorry' >&2\nexit 3\n")
    go.chmod(0o755)
    provider = provider_in(tmp_path, APPORTION_RELEASE_URL="http://127.0.0.1:9", GO_PATH=str(go.parent))
    with pytest.raises(MissingBinariesError, match="Go modules: go build exited with 3: disk is full, sorry"):
        await provided(provider)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("go") is None, reason="this machine has no Go")
async def test_the_committed_modules_name_every_program(tmp_path: Path) -> None:
    """`go list` finds each package in the committed go.mod files, so the fallback build has something to build."""
    modules = Path(__file__).parents[2] / "testbed" / "go"
    for folder in sorted(modules.iterdir()):
        process = await asyncio.create_subprocess_exec(
            "go",
            "list",
            "tool",
            cwd=folder,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "GOWORK": "off"},
        )
        listed = (await process.communicate())[0].decode()
        assert process.returncode == 0
        project = next(one for one in PROJECTS if folder.name.startswith(one.name))
        assert set(project.packages.values()) <= set(listed.split())
