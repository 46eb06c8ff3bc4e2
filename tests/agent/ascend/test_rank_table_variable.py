"""RANK_TABLE_FILE: set in containers whose claim asks for it, because a framework that finds it takes the table for the whole job."""

from collections.abc import Sequence
from uuid import uuid4

import pytest

from testbed.api import Json
from tests.agent.places import NPU
from tests.agent.simulatednode import MakeNode, SimulatedNode

KIND = "config.apportion.dev/v1alpha1"
PARAMETERS = "status.allocation.devices.config[0].opaque.parameters"


def entry(*requests: str, source: str = "FromClaim", **parameters: object) -> Json:
    """Return an entry of a claim's configuration."""
    body = {"apiVersion": KIND, "kind": "NpuConfig", **parameters}
    return {"source": source, "requests": [*requests], "opaque": {"driver": NPU, "parameters": body}}


async def claim_of(
    node: SimulatedNode, namespace: str, config: Sequence[Json], **devices: Sequence[str]
) -> Json:
    """Make a claim whose requests are allocated to these devices."""
    path = f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"
    requests = [
        {"name": name, "exactly": {"deviceClassName": "any", "count": len(names)}}
        for name, names in devices.items()
    ]
    name = f"ring-{uuid4().hex}"
    await node.api.create(path, {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}})
    results = [
        {"request": request, "driver": NPU, "pool": node.name, "device": device}
        for request, names in devices.items()
        for device in names
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node.name]}]
    status = {
        "allocation": {
            "devices": {"results": results, "config": [*config]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
        },
        "reservedFor": [{"apiGroup": "example.com", "resource": "tests", "name": "test", "uid": "test"}],
    }
    return await node.api.patch(f"{path}/{name}/status", {"status": status})


async def error_of(node: SimulatedNode, claim: Json) -> str:
    """Prepare a claim; returns the error."""
    return await node.prepared(claim, driver=NPU)


def tables(node: SimulatedNode) -> dict[str, str]:
    """Return by chip where the variable leads in the containers of the only claim."""
    ((_, cdi),) = node.cdi().items()
    found = {}
    for device in cdi["devices"]:
        edits = device["containerEdits"]
        values = [row.partition("=")[2] for row in edits["env"] if row.startswith("RANK_TABLE_FILE=")]
        mounted = {row["containerPath"] for row in edits["mounts"]}
        assert {*values} <= mounted
        if values:
            (found[device["name"][-len("npu-0") :]],) = values
    return found


async def test_a_claim_that_asks_for_it_has_the_variable_where_its_table_is(
    make_node: MakeNode, namespace: str
) -> None:
    """In containers that get the request; others, and claims that do not ask, have none."""
    async with make_node(cards=[{"model": "910A", "count": 8}]) as node, node.agent():
        for config in ([], [entry("ring")], [entry("ring", rankTable=False)]):
            silent = await claim_of(node, namespace, config, ring=["npu-0", "npu-1"])
            assert await error_of(node, silent) == ""
            assert tables(node) == {}
            await node.unprepare(silent, driver=NPU)
        config = [entry("ring", rankTable=True)]
        claim = await claim_of(node, namespace, config, ring=["npu-4", "npu-5"], alone=["npu-0"])
        assert await error_of(node, claim) == ""
        found = tables(node)
        assert set(found) == {"npu-4", "npu-5"}
        assert {path.rpartition("/")[2] for path in found.values()} == {f"{NPU}-rank-table.json"}
        before = node.cdi()
        for file in (node.folder / "cdi").iterdir():
            file.unlink()
        assert await error_of(node, claim) == ""
        assert node.cdi() == before


async def test_the_claims_own_word_goes_before_its_class(make_node: MakeNode, namespace: str) -> None:
    """Of several entries the last one counts, as for other parameters."""
    async with make_node(cards=[{"model": "910A", "count": 8}]) as node, node.agent():
        config = [entry("ring", source="FromClass", rankTable=True), entry("ring", rankTable=False)]
        claim = await claim_of(node, namespace, config, ring=["npu-0", "npu-1"])
        assert await error_of(node, claim) == ""
        assert tables(node) == {}


async def test_without_requests_it_is_about_the_request_that_has_a_table(
    make_node: MakeNode, namespace: str
) -> None:
    """As other parameters without requests apply to the devices that they suit."""
    async with make_node(cards=[{"model": "910A", "count": 8}]) as node, node.agent():
        claim = await claim_of(
            node, namespace, [entry(rankTable=True)], ring=["npu-0", "npu-1"], alone=["npu-4"]
        )
        assert await error_of(node, claim) == ""
        assert set(tables(node)) == {"npu-0", "npu-1"}


@pytest.mark.parametrize(
    ("requests", "devices", "field", "reason"),
    [
        (["alone"], {"alone": ["npu-0"]}, "rankTable", "request alone has no rank table: it has one NPU"),
        ([], {"alone": ["npu-0"]}, "rankTable", "request alone has no rank table: it has one NPU"),
        (
            ["part"],
            {"part": ["npu-0-vir02-0", "npu-1-vir02-0"]},
            "kind",
            "NpuConfig does not suit device npu-0-vir02-0 of request part",
        ),
        (
            [],
            {"one": ["npu-0", "npu-1"], "two": ["npu-2", "npu-3"]},
            "rankTable",
            "RANK_TABLE_FILE leads to one table, and requests one, two have one each",
        ),
    ],
    ids=["one chip", "one chip of all", "parts", "two tables"],
)
async def test_a_variable_that_would_lead_nowhere_is_refused(
    make_node: MakeNode,
    namespace: str,
    requests: Sequence[str],
    devices: dict[str, Sequence[str]],
    field: str,
    reason: str,
) -> None:
    """Parameters are honoured or refused, never ignored; nothing of the claim is made."""
    async with make_node(cards=[{"model": "910A", "count": 8}]) as node, node.agent():
        claim = await claim_of(node, namespace, [entry(*requests, rankTable=True)], **devices)
        said = await error_of(node, claim)
        assert f"{PARAMETERS}.{field}: {reason}" in said
        assert node.cdi() == {}
        assert not list(node.folder.glob("p/**/rank-table.json"))


async def test_it_is_no_parameter_of_other_cards(make_node: MakeNode, namespace: str) -> None:
    """NCCL finds its rings by itself."""
    async with make_node(cards=[{"model": "H100-80GB", "count": 2}]) as node, node.agent():
        gpu = "gpu.apportion.dev"
        config = [entry("r0", rankTable=True)]
        config[0]["opaque"]["driver"] = gpu
        claim = await node.claim(namespace, "gpus", "gpu-0", "gpu-1", config=config)
        said = await node.prepared(claim)
        assert "kind: NpuConfig is for NPUs, not for a gpu" in said
