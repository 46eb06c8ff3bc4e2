"""Pods as they were written for device plugins."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.tenant import pod

NVIDIA = "nvidia.com/gpu"


def asking(name: str, limits: Mapping[str, str], *claims: str) -> dict[str, Any]:
    """Return a pod that asks for extended resources."""
    made = pod(name, *claims)
    made["spec"]["containers"][0]["resources"]["limits"] = dict(limits)
    return made
