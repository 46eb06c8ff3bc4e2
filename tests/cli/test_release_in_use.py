"""What `apportion release` leaves of claims that may be in use."""

import asyncio
from pathlib import Path

import typer
import yaml
from typer.testing import CliRunner

from apportion.cli.release import release
from apportion.cluster.kinds import CLAIMS
from tests.cluster.apiserver import ApiServer, Json

OURS, PROTECTION = "apportion.dev/allocation", "resource.kubernetes.io/delete-protection"
app = typer.Typer()
app.command()(release)


async def test_a_claim_that_has_devices_keeps_a_finalizer(tmp_path: Path) -> None:
    """Its owner could delete it while its pod runs, and others would get its devices; controller-manager takes care of it from then on."""
    async with ApiServer().serving() as server:
        for name, finalizers, allocated in (
            ("kept", [OURS], True),
            ("both", [OURS, PROTECTION], True),
            ("waits", [OURS], False),
            ("others", ["example.com/own", OURS], False),
        ):
            server.put(CLAIMS, claim(name, finalizers, allocated=allocated))
        done = await asyncio.to_thread(
            CliRunner().invoke, app, ["--kubeconfig", str(config(tmp_path, server))]
        )
        assert done.exit_code == 0, done.output
        left = {each["metadata"]["name"]: each["metadata"]["finalizers"] for each in server.all(CLAIMS)}
        assert left == {
            "kept": [PROTECTION],
            "both": [PROTECTION],
            "waits": [],
            "others": ["example.com/own"],
        }


def claim(name: str, finalizers: list[str], *, allocated: bool) -> Json:
    """Return a claim that is kept between pods."""
    status: Json = {"allocation": {"devices": {"results": []}}} if allocated else {}
    return {"metadata": {"name": name, "namespace": "team", "finalizers": finalizers}, "status": status}


def config(folder: Path, server: ApiServer) -> Path:
    """Write a kubeconfig of the server."""
    raw = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {}}],
    }
    file = folder / "config"
    file.write_text(yaml.safe_dump(raw))
    return file
