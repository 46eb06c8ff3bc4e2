"""Every Kubernetes object in README and docs, and every part of one, is accepted by an API server with our CRDs and policies."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from testbed.controlplane import ControlPlane
from testbed.errors import TestbedError
from tests.docs.blocks import blocks, pages

Json = dict[str, Any]
FOREIGN = ("config.kueue.x-k8s.io/", "kueue.x-k8s.io/")
"""Versions of other projects, which this server does not serve."""


def whole(found: Json) -> Json | None:
    """Return the object that a block is, or is a part of; None for what is no part of one, as a kustomization."""
    if "kind" in found:
        return None if found["apiVersion"].startswith(FOREIGN) else found
    if found.keys() == {"config"}:
        # Of a claim.
        names = sorted({name for row in found["config"] for name in row.get("requests", ())}) or ["r"]
        requests: list[Json] = [
            {"name": name, "exactly": {"deviceClassName": "gpu.apportion.dev"}} for name in names
        ]
        spec: Json = {"devices": {"requests": requests, **found}}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c"},
            "spec": spec,
        }
    if found.keys() == {"metadata", "spec"}:
        # Of a pod's template.
        containers = [{"image": "none", **each} for each in found["spec"]["containers"]]
        spec = {**found["spec"], "containers": containers}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", **found["metadata"]},
            "spec": spec,
        }
    return None


def documented() -> Iterator[tuple[str, Json]]:
    """Yield the objects with where they stand."""
    for page in pages():
        for block in blocks(page):
            if block.language == "yaml":
                for found in yaml.safe_load_all(block.text):
                    made = whole(found) if isinstance(found, dict) else None
                    if made is not None:
                        yield f"{block.where} {made['kind']}", made


OBJECTS = [*documented()]


async def refusal(server: ControlPlane, raw: Json) -> str:
    """Return why the server would not create an object, unknown fields included; empty: it would."""
    try:
        await server.kubectl(
            "create", "--dry-run=server", "--validate=strict", "--filename=-", stdin=yaml.safe_dump(raw)
        )
    except TestbedError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("where", "raw"), OBJECTS, ids=[where for where, _ in OBJECTS])
async def test_the_server_accepts_what_the_docs_tell_to_apply(
    installed: ControlPlane, where: str, raw: Json
) -> None:
    """What a page shows is copied; a server-side dry run says what is wrong with it."""
    assert await refusal(installed, raw) == "", where


async def test_what_is_wrong_is_noticed(installed: ControlPlane) -> None:
    """Unknown fields and wrong values, of our kinds and of others, and there are objects of both to look at."""
    found = {raw["kind"]: raw for _, raw in OBJECTS}
    assert found.keys() >= {"AllocationPolicy", "DefragPolicy", "DeviceClass", "DeviceTaintRule", "Pod"}
    for kind, spec in (
        ("AllocationPolicy", {"strategie": "Pack"}),
        ("AllocationPolicy", {"strategy": "Best"}),
        ("DeviceTaintRule", {"taint": {"key": "example.com/repair", "effect": "Never"}}),
        ("DeviceTaintRule", {"reason": "r"}),
    ):
        assert await refusal(installed, {**found[kind], "spec": {**found[kind]["spec"], **spec}})
