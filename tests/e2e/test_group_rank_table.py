"""HCCL's rank table of a group on a real control plane: with the gate, in the same write, by the operator's own rights."""

import json

from testbed.api import Json
from tests.e2e.specialpods import member
from tests.e2e.tenant import NPU, Tenant, claim, devices, gates, request

ASKS, TABLE = "apportion.dev/rank-table", "apportion.dev/hccl-rank-table"


async def test_pods_find_the_chips_of_their_whole_group_before_they_start(team: Tenant) -> None:
    """Two pods with two chips each: four ranks, those of a pod one after the other; who asks for nothing else has no table."""
    for name in ("rank-a", "rank-b"):
        await team.make(claim(name, request(NPU, MODEL, count=2)))
        await team.make(asking(name, "HCCL"))
    running = await team.running("rank-a", "rank-b")
    [text] = {pod["metadata"]["annotations"][TABLE] for pod in running}
    table = json.loads(text)
    assert (table["status"], table["version"], table["server_count"]) == ("completed", "1.0", "1")
    [server] = table["server_list"]
    node = running[0]["spec"]["nodeName"]
    assert server["server_id"] == node
    chips = {row["rank_id"]: f"{node}/npu-{row['device_id']}" for row in server["device"]}
    own = [set(devices(await team.claim(name))) for name in ("rank-a", "rank-b")]
    assert [{chips[str(rank)] for rank in ranks} for ranks in ((0, 1), (2, 3))] == own
    assert all(row["device_ip"].startswith("10.") for row in server["device"])


async def test_pods_of_another_table_start_and_hear_why_they_have_none(team: Tenant) -> None:
    """Only HCCL's is known."""
    await team.make(claim("odd", request(NPU, MODEL)))
    made = asking("odd", "NCCL")
    made["metadata"]["annotations"] |= {"apportion.dev/pod-group-min-count": "1"}
    await team.make(made)
    [pod] = await team.running("odd")
    assert gates(pod) == []
    assert TABLE not in pod["metadata"]["annotations"]
    await team.event("odd", "NoRankTable", ASKS, "expected HCCL, not 'NCCL'")


MODEL = 'device.attributes["npu.apportion.dev"].model == "910B4"'


def asking(name: str, kind: str) -> Json:
    """Return a pod of a group of two that asks for a rank table."""
    made = member(name, "ranks", "2")
    made["metadata"]["annotations"][ASKS] = kind
    return made
