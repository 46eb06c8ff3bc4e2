"""Fenced writes to claims and pods of a real API server."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from apportion.api.contract import ALLOCATION_FINALIZER, GATE
from apportion.cluster.client import Client, connect
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.claim import PROTECTION_FINALIZER, Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import HCCL_RANK_TABLE, RANK_TABLE, Pod
from apportion.dra.selection import NodeSelector
from apportion.errors import ApiError, NotLeading, Overtaken
from apportion.scheduling.writing.writer import Writer
from testbed.controlplane import ControlPlane
from testbed.faultyproxy import Fault, FaultyProxy, Rule
from tests.scheduling.written import allocate, claim, read

ANSWER = Allocation(
    (DeviceResult("r", DeviceId("d.example.com", "n1", "dev")),), node_selector=NodeSelector.of_name("n1")
)


async def test_finalizer_then_allocation_with_its_timestamp(
    client: Client, writer: Writer, namespace: str
) -> None:
    """Without the one controller-manager never deallocates, without the other nobody can reserve."""
    await allocate(writer, await claim(client, namespace), ANSWER)
    found = await read(client, namespace)
    assert PROTECTION_FINALIZER in found.finalizers
    assert found.allocation is not None
    assert found.allocation.timestamp == "2026-01-02T00:00:00Z"
    assert found.allocation.results == ANSWER.results
    assert found.allocated_by == "apportion-operator"


async def test_a_claim_without_a_pod_gets_our_own_finalizer(
    client: Client, writer: Writer, namespace: str
) -> None:
    """controller-manager must not deallocate it between pods."""
    made = await claim(client, namespace, annotations={GATE: "Immediate"})
    await allocate(writer, made, ANSWER)
    assert (await read(client, namespace)).finalizers == (ALLOCATION_FINALIZER,)
    # Nobody else takes it off: the claim would outlive the test.
    await client.patch(CLAIMS, "c", {"metadata": {"finalizers": []}}, namespace=namespace)


async def test_a_claim_that_changed_meanwhile_is_not_written(
    client: Client, writer: Writer, namespace: str
) -> None:
    """A stale decision is refused by the server."""
    made = await claim(client, namespace, finalizers=[PROTECTION_FINALIZER])
    await client.patch(CLAIMS, "c", {"metadata": {"labels": {"a": "b"}}}, namespace=namespace)
    with pytest.raises(Overtaken):
        await allocate(writer, made, ANSWER)
    assert (await read(client, namespace)).allocation is None


async def test_clearing_spares_what_was_reserved_or_replaced(
    client: Client, writer: Writer, namespace: str
) -> None:
    """It reads again, and clears only the allocation that was meant."""
    await allocate(writer, await claim(client, namespace), ANSWER)
    allocated = await read(client, namespace)
    # No pod: controller-manager would take a consumer away that does not exist, and the allocation with it.
    consumer = {"apiGroup": "example.com", "resource": "things", "name": "p", "uid": "u"}
    reserved = {"status": {"reservedFor": [consumer]}}
    await client.patch(CLAIMS, "c", reserved, namespace=namespace, sub="status")
    assert not await writer.clear(allocated)
    await client.patch(CLAIMS, "c", {"status": {"reservedFor": None}}, namespace=namespace, sub="status")
    now = await read(client, namespace)
    if now.allocation is not None:  # controller-manager may have been faster
        assert await writer.clear(now)
    assert (await read(client, namespace)).allocation is None


async def test_only_our_gate_goes(client: Client, writer: Writer, namespace: str) -> None:
    """Others' gates stay; a pod that changed its gates is looked at again."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "schedulingGates": [{"name": "other/gate"}, {"name": GATE}],
            "containers": [{"name": "c", "image": "none"}],
        },
    }
    pod = Pod.from_json(await client.create(PODS, body, namespace=namespace))
    await writer.ungate(pod)
    assert Pod.from_json(await client.get(PODS, "p", namespace=namespace)).gates == ("other/gate",)
    with pytest.raises(ApiError):
        await writer.ungate(pod)


@pytest.mark.parametrize(("node", "nominated"), [("n1", "n1"), ("no node's name", None), ("", None)])
async def test_the_node_is_nominated_before_the_gate_goes(
    client: Client, writer: Writer, namespace: str, node: str, nominated: str | None
) -> None:
    """A nomination that the API server refuses keeps no pod from starting."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {
            "schedulerName": "nobody",
            "schedulingGates": [{"name": GATE}],
            "containers": [{"name": "c", "image": "none"}],
        },
    }
    pod = Pod.from_json(await client.create(PODS, body, namespace=namespace))
    await writer.ungate(pod, node=node)
    found = await client.get(PODS, "p", namespace=namespace)
    assert found["status"].get("nominatedNodeName") == nominated
    assert Pod.from_json(found).gates == ()


async def test_a_rank_table_comes_with_the_end_of_the_gate(
    client: Client, writer: Writer, namespace: str
) -> None:
    """In one write: no pod starts without the table that it asked for; a pod that changed its gates gets none."""
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {RANK_TABLE: "HCCL"}},
        "spec": {"schedulingGates": [{"name": GATE}], "containers": [{"name": "c", "image": "none"}]},
    }
    pod = Pod.from_json(await client.create(PODS, body, namespace=namespace))
    assert pod.rank_table == "HCCL"
    await writer.ungate(pod, '{"version":"1.0"}')
    found = await client.get(PODS, "p", namespace=namespace)
    assert found["metadata"]["annotations"] == {RANK_TABLE: "HCCL", HCCL_RANK_TABLE: '{"version":"1.0"}'}
    assert Pod.from_json(found).gates == ()
    with pytest.raises(ApiError):
        await writer.ungate(pod, "{}")
    later = await client.get(PODS, "p", namespace=namespace)
    assert later["metadata"]["annotations"] == found["metadata"]["annotations"]


async def test_nothing_is_written_without_the_lease(client: Client, namespace: str) -> None:
    """The fence stands before every request."""

    def shut() -> None:
        raise NotLeading("no")

    made = await claim(client, namespace)
    writer = Writer(client, fence=shut, now=lambda: datetime.now(UTC))
    with pytest.raises(NotLeading):
        await allocate(writer, made, ANSWER)
    assert (await read(client, namespace)).version == made.version


async def test_a_namespace_does_not_wait_for_all_writes_of_another(
    client: Client, namespace: str, control_plane: ControlPlane
) -> None:
    """A large group has many; what came after them in another namespace is written after one or two."""
    writer = Writer(client, fence=lambda: None, now=lambda: datetime(2026, 1, 2, tzinfo=UTC), concurrency=1)
    many = [await claim(client, namespace, name=f"c{number}") for number in range(6)]
    one = await claim(client, await control_plane.make_namespace())
    written: list[str] = []

    async def protect(each: Claim) -> None:
        await writer.protect(each)
        written.append(each.namespace)

    await asyncio.gather(*(protect(each) for each in (*many, one)))

    assert written.index(one.namespace) <= 2


async def test_no_start_of_a_pod_waits_for_what_autoscalers_see(
    client: Client, namespace: str, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Thousands of conditions may be due at once, in the same namespace; they are written beside, however long the API server takes for them."""
    spec = {"schedulingGates": [{"name": GATE}], "containers": [{"name": "c", "image": "none"}]}
    bodies = [{"metadata": {"name": f"p{number}"}, "spec": spec} for number in range(12)]
    pods = [Pod.from_json(await client.create(PODS, body, namespace=namespace)) for body in bodies]
    made = await claim(client, namespace)
    written: list[str] = []
    async with (
        FaultyProxy(control_plane.kubeconfig) as proxy,
        await connect(
            proxy.kubeconfig(tmp_path / "proxied"), patience=60.0, manager="apportion-operator"
        ) as proxied,
    ):
        proxy.rules = [Rule(Fault.HOLD_REQUEST, "PATCH", "/pods/", seconds=60.0)]
        writer = Writer(
            proxied, fence=lambda: None, now=lambda: datetime(2026, 1, 2, tzinfo=UTC), concurrency=4
        )

        async def show(pod: Pod) -> None:
            await writer.show(pod, "no node could serve it")
            written.append("shown")

        async def protect() -> None:
            await writer.protect(made)
            written.append("protected")
            proxy.rules = []
            proxy.let_go()

        await asyncio.gather(*(show(pod) for pod in pods), protect())

    assert written == ["protected", *["shown"] * 12]
    found = await client.list(PODS, namespace=namespace)
    assert [Pod.from_json(raw).shown for raw in found["items"]] == [True] * 12
