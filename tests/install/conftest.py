"""The production install on real control planes of both versions, applied once each.

Tests that hold for both versions are written once, in a class that asks for `cluster`; two subclasses say which.
"""

from pathlib import Path

import pytest

from testbed.controlplane import ControlPlane

MANIFESTS = Path(__file__).parents[2] / "manifests"


@pytest.fixture(scope="session")
def manifests() -> Path:
    """Give the folder that `kubectl apply -k` takes."""
    return MANIFESTS


@pytest.fixture(scope="session")
async def installed(control_plane: ControlPlane) -> ControlPlane:
    """Give a control plane of the default version with apportion's manifests."""
    return await _install(control_plane)


@pytest.fixture(scope="session")
async def oldest_installed(oldest_control_plane: ControlPlane) -> ControlPlane:
    """Give a control plane of the oldest supported version with apportion's manifests."""
    return await _install(oldest_control_plane)


async def _install(cluster: ControlPlane) -> ControlPlane:
    await cluster.kubectl("apply", "--kustomize", str(MANIFESTS))
    await cluster.kubectl(
        "wait",
        "--for=condition=Established",
        "--timeout=30s",
        "crd",
        "--selector=app.kubernetes.io/part-of=apportion",
    )
    await _remove_workloads(cluster)
    return cluster


async def _remove_workloads(cluster: ControlPlane) -> None:
    # Nothing here runs containers, and other tests' nodes should stay empty.
    await cluster.kubectl(
        "delete",
        "--namespace=apportion-system",
        "--ignore-not-found",
        "deployment/apportion-operator",
        "daemonset/apportion-agent",
    )
