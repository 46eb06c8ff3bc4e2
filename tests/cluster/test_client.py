"""The client's answers on a real API server."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kubernetes_asyncio.client import Configuration

from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import CLAIMS, NODES
from apportion.errors import ApiError, Missing, Overtaken, Unanswered, Unreachable
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import Fault, FaultyProxy, Rule

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


PATIENCE = 20.0


@pytest.fixture
async def proxy(control_plane: ControlPlane) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(control_plane.kubeconfig) as made:
        yield made


@pytest.fixture
async def proxied(proxy: FaultyProxy, tmp_path: Path) -> AsyncIterator[Client]:
    """Talk to the API server through the proxy."""
    async with await connect(proxy.kubeconfig(tmp_path / "proxied"), patience=PATIENCE) as made:
        yield made


async def test_a_server_that_is_busy_is_asked_once_more_when_it_says(
    proxy: FaultyProxy, proxied: Client, namespace: str
) -> None:
    """429 with Retry-After: the request was not carried out, and a little later it is."""
    proxy.rules = [Rule(Fault.THROTTLE, "POST", times=1, seconds=1)]
    await proxied.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    assert proxy.faults[Fault.THROTTLE] == 1


async def test_a_server_that_is_busy_for_longer_than_our_patience_is_left_alone(
    proxy: FaultyProxy, proxied: Client, namespace: str
) -> None:
    """A write has to end within the lease; the caller learns when to come back, and that nothing was done."""
    proxy.rules = [Rule(Fault.THROTTLE, "POST", seconds=60)]
    with pytest.raises(Unreachable) as refusal:
        await proxied.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    assert not isinstance(refusal.value, Unanswered)
    assert refusal.value.retry_after == 60
    assert proxy.faults[Fault.THROTTLE] == 1


@pytest.mark.parametrize("fault", [Fault.GARBLE, Fault.FAIL, Fault.LOSE_ANSWER])
async def test_nobody_knows_what_was_done_without_a_proper_answer(
    proxy: FaultyProxy, proxied: Client, namespace: str, fault: Fault
) -> None:
    """A gateway's page, 500, a broken connection: the object is there all the same."""
    proxy.rules = [Rule(fault, "POST")]
    with pytest.raises(Unanswered):
        await proxied.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    assert (await proxied.get(CLAIMS, "c", namespace=namespace))["metadata"]["name"] == "c"


async def test_nothing_was_done_where_nobody_listens() -> None:
    """A connection that never came about carried no request."""
    async with Client(Configuration(host="http://127.0.0.1:1"), patience=1.0, manager="test") as nowhere:
        with pytest.raises(Unreachable) as error:
            await nowhere.get(NODES, "n")
    assert not isinstance(error.value, Unanswered)


async def test_the_server_gives_up_before_we_do(proxy: FaultyProxy, proxied: Client, namespace: str) -> None:
    """Its deadline travels with the request; a list may take as long as the server allows."""
    await proxied.create(CLAIMS, {**CLAIM, "metadata": {"name": "c"}}, namespace=namespace)
    await proxied.list(CLAIMS, namespace=namespace)
    write, read = (float(re.findall(r"timeout=([0-9.]+)s", each)[0]) for each in proxy.requests)
    assert 0 < write < PATIENCE
    assert read > 45
