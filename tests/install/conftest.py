"""The production install on real control planes of both versions, applied once each; and the wheels of the lock file.

Tests that hold for both versions are written once, in a class that asks for `cluster`; two subclasses say which (`supportedversions`).
"""

import fcntl
import hashlib
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import platformdirs
import pytest

from apportion.api.crd import DEFINITIONS
from testbed.api import Api, Json
from testbed.controlplane import ControlPlane
from testbed.errors import ApiError, TestbedError
from testbed.eventually import eventually
from testbed.installation import until_served
from tests.e2e.tenant import MANAGED

MANIFESTS = Path(__file__).parents[2] / "manifests"
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"


@pytest.fixture(scope="session")
def manifests() -> Path:
    """Give the folder that `kubectl apply -k` takes."""
    return MANIFESTS


@pytest.fixture(scope="session")
def wheels() -> Path:
    """Give a folder with the wheels of what runs in the image; they are fetched once, and again when the lock changes."""
    requirements = MANIFESTS.parent / "requirements/runtime.txt"
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    place = platformdirs.user_cache_path("apportion") / "testbed" / "wheels" / f"{python}-{digest}"
    place.parent.mkdir(parents=True, exist_ok=True)
    with (place.parent / f".{place.name}.lock").open("w") as lock:
        # Another worker may want them at the same time, and no folder takes the place of one that has files.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.is_dir():
            with tempfile.TemporaryDirectory(dir=place.parent) as folder:
                fetched = Path(folder) / "wheels"
                options = ["--no-deps", "--require-hashes", "--only-binary=:all:", "--quiet"]
                command = [sys.executable, "-m", "pip", "download", *options]
                subprocess.run([*command, "--dest", fetched, "--requirement", requirements], check=True)
                fetched.replace(place)
    return place


@pytest.fixture(scope="session")
async def installed(control_plane: ControlPlane) -> ControlPlane:
    """Give a control plane of the default version with apportion's manifests."""
    return await _install(control_plane)


@pytest.fixture(scope="session")
async def oldest_installed(oldest_control_plane: ControlPlane) -> ControlPlane:
    """Give a control plane of the oldest supported version with apportion's manifests."""
    return await _install(oldest_control_plane)


@pytest.fixture
async def managed(cluster: ControlPlane) -> AsyncIterator[str]:
    """Make a namespace in which admission acts."""
    async with _namespace(cluster, MANAGED) as name:
        yield name


@pytest.fixture
async def unmanaged(cluster: ControlPlane) -> AsyncIterator[str]:
    """Make a namespace that nobody labelled."""
    async with _namespace(cluster, {}) as name:
        yield name


@asynccontextmanager
async def _namespace(cluster: ControlPlane, labels: Mapping[str, str]) -> AsyncIterator[str]:
    cluster.check()
    name = await cluster.make_namespace(labels=labels)
    yield name
    await cluster.drop_namespace(name)


async def _install(cluster: ControlPlane) -> ControlPlane:
    await cluster.kubectl("apply", "--kustomize", str(MANIFESTS))
    await until_served(cluster)
    await _until_explained(cluster)
    await _until_checked(cluster)
    await _remove_workloads(cluster)
    await _until_enforced(cluster)
    return cluster


async def _until_explained(cluster: ControlPlane) -> None:
    """Wait until kubectl explains our kinds: their schemas are published a moment after they are served."""

    async def missing() -> list[str]:
        found = []
        for each in DEFINITIONS:
            try:
                await cluster.kubectl("explain", each.plural)
            except TestbedError as error:
                found.append(f"{each.plural}: {error}")
        return found

    await eventually(missing, lambda found: not found)


async def _until_checked(cluster: ControlPlane) -> None:
    """Wait until controller-manager has said in the status of each policy what is wrong with its types."""

    async def unchecked() -> list[str]:
        found, _ = await cluster.api.items(POLICIES)
        ours = [each for each in found if each["metadata"]["name"].endswith(".apportion.dev")]
        return [each["metadata"]["name"] for each in ours if "typeChecking" not in each.get("status", {})]

    await eventually(unchecked, lambda found: not found)


async def _remove_workloads(cluster: ControlPlane) -> None:
    # Nothing here runs containers, and other tests' nodes should stay empty.
    await cluster.kubectl(
        "delete",
        "--namespace=apportion-system",
        "--ignore-not-found",
        "deployment/apportion-operator",
        "daemonset/apportion-agent",
    )


async def _until_enforced(cluster: ControlPlane) -> None:
    """Wait until the API server has taken the admission policies up: a moment after they were made, not at once."""
    probe = await cluster.make_namespace("enforced", MANAGED)
    agent = await cluster.service_account_kubeconfig("apportion-system", "apportion-agent")
    pod: Json = {
        "metadata": {"name": "probe"},
        "spec": {
            "containers": [{"name": "main", "image": "none"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": "c"}],
        },
    }
    claim: Json = {"metadata": {"name": "probe"}, "spec": {}}
    device_slice: Json = {
        "metadata": {"name": "probe"},
        "spec": {
            "driver": "probe.apportion.dev",
            "nodeName": "probe",
            "pool": {"name": "probe", "generation": 1, "resourceSliceCount": 1},
            "devices": [],
        },
    }

    async with Api.of(agent) as unbound:

        async def enforced() -> tuple[bool, bool, bool]:
            made = await cluster.api.create(f"/api/v1/namespaces/{probe}/pods", pod, dryRun="All")
            claimed = await cluster.api.create(
                f"/apis/resource.k8s.io/v1/namespaces/{probe}/resourceclaims", claim, dryRun="All"
            )
            try:
                await unbound.create("/apis/resource.k8s.io/v1/resourceslices", device_slice, dryRun="All")
            except ApiError as error:
                bounded = "names no node" in error.message
            else:
                bounded = False
            return "schedulingGates" in made["spec"], "finalizers" in claimed["metadata"], bounded

        await eventually(enforced, all)
    await cluster.api.delete(f"/api/v1/namespaces/{probe}")
