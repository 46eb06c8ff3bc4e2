"""The client's answers on a real API server."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NODES
from apportion.errors import ApiError, Missing, Overtaken

CLAIM = {
    "apiVersion": "resource.k8s.io/v1",
    "kind": "ResourceClaim",
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "none"}}]}},
}


async def test_what_is_not_there_is_missing(client: Client) -> None:
    """By its own error, and deleting it is fine."""
    with pytest.raises(Missing):
        await client.get(NODES, "nowhere")
    await client.delete(NODES, "nowhere")


async def test_a_stale_version_is_overtaken(client: Client, namespace: str) -> None:
    """The resourceVersion in a merge patch is a precondition, on the object and on its status."""
    made = await client.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    version = made["metadata"]["resourceVersion"]
    label = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    await client.patch(CLAIMS, "c", label, namespace=namespace)
    with pytest.raises(Overtaken):
        await client.patch(CLAIMS, "c", label, namespace=namespace)
    with pytest.raises(Overtaken):
        await client.patch(
            CLAIMS,
            "c",
            {"metadata": {"resourceVersion": version}, "status": {}},
            namespace=namespace,
            sub="status",
        )


async def test_the_uid_in_a_patch_protects_a_namesake(client: Client, namespace: str) -> None:
    """A recreated object is another object."""
    await client.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    with pytest.raises(ApiError, match="uid"):
        await client.patch(
            CLAIMS, "c", {"metadata": {"uid": "0d7f1f1e-aaaa-bbbb-cccc-000000000000"}}, namespace=namespace
        )


async def test_a_taken_name_is_overtaken(client: Client, namespace: str) -> None:
    """So a second creation is no second object."""
    body = {**CLAIM, "metadata": {"name": "c"}}
    await client.create(CLAIMS, body, namespace=namespace)
    with pytest.raises(Overtaken):
        await client.create(CLAIMS, body, namespace=namespace)
