"""What `apportion release` leaves of claims that may be in use, and says of those that are."""

import asyncio
from pathlib import Path

import pytest
import typer
from aiohttp import web
from typer.testing import CliRunner

from apportion.cli.release import release
from apportion.cluster.kinds import CLAIMS, PARTITIONS, SLICES
from tests.cluster.apiserver import ApiServer, Json
from tests.cluster.userconfig import config

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


async def test_who_has_devices_of_the_agents_is_named(tmp_path: Path) -> None:
    """Kubelet cannot end such a pod without the agent: it would stay Terminating once the DaemonSet is deleted. Claims of other drivers are not ours to wait for."""
    async with ApiServer().serving() as server:
        guard = {"key": "apportion.dev/guard", "effect": "NoSchedule"}
        for driver, taints in (("gpu.example.com", [guard]), ("other.example.com", [])):
            devices = [{"name": "gpu-0", "taints": taints}]
            server.put(SLICES, {"metadata": {"name": driver}, "spec": {"driver": driver, "devices": devices}})
            for name, pods in (("used", [{"resource": "pods", "name": "train-0"}]), ("idle", [])):
                found = claim(f"{name}-{driver[:5]}", [PROTECTION], allocated=True)
                found["status"]["allocation"]["devices"]["results"] = [{"driver": driver, "device": "gpu-0"}]
                server.put(CLAIMS, {**found, "status": {**found["status"], "reservedFor": pods}})
        uid = server.get(CLAIMS, "used-gpu.e", "team")["metadata"]["uid"]
        server.fault = lambda request: (
            web.json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})
            if request.method == "DELETE"
            else None
        )
        left = {"metadata": {"name": "part", "finalizers": ["apportion.dev/agent"]}}
        server.put(PARTITIONS, {**left, "spec": {}, "status": {"preparedBy": [uid]}})
        done = await asyncio.to_thread(
            CliRunner().invoke, app, ["--kubeconfig", str(config(tmp_path, server)), "--patience", "0"]
        )
        assert done.exit_code == 1, done.output
        assert [line for line in done.output.splitlines() if line.startswith("left")] == [
            "left: partition part, prepared for claim team/used-gpu.e",
            "left: claim team/used-gpu.e, used by pods/train-0",
        ]


@pytest.mark.parametrize("driver", ["gpu.apportion.dev", "npu.apportion.dev"])
async def test_who_has_devices_is_named_also_when_the_agents_went_first(tmp_path: Path, driver: str) -> None:
    """Kubelet deletes the slices of an agent that has gone, and cannot end its pods."""
    async with ApiServer().serving() as server:
        found = claim("used", [OURS], allocated=True)
        found["status"]["allocation"]["devices"]["results"] = [{"driver": driver, "device": "gpu-0"}]
        found["status"]["reservedFor"] = [{"resource": "pods", "name": "train-0"}]
        server.put(CLAIMS, found)
        # One that is left may have no device.
        server.put(SLICES, {"metadata": {"name": "empty"}, "spec": {"driver": driver, "devices": []}})
        for _ in range(2):  # the finalizer goes with the first one
            done = await asyncio.to_thread(
                CliRunner().invoke, app, ["--kubeconfig", str(config(tmp_path, server)), "--patience", "0"]
            )
            assert "left: claim team/used, used by pods/train-0" in done.output
            assert done.exit_code == 1


def claim(name: str, finalizers: list[str], *, allocated: bool) -> Json:
    """Return a claim that is kept between pods."""
    status: Json = {"allocation": {"devices": {"results": []}}} if allocated else {}
    return {"metadata": {"name": name, "namespace": "team", "finalizers": finalizers}, "status": status}
