"""Devices that several nodes reach are reserved for the first of the queue, as those of one node are."""

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import Json, request
from tests.scheduling.reserving import Reserving, on

SELECTED: Json = {
    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
}
REACHED: dict[str, Json] = {
    "all nodes": {"allNodes": True},
    "selected nodes": {"nodeSelector": SELECTED},
}


def channels(count: int, **exactly: object) -> Json:
    expression = 'device.attributes["gpu.apportion.dev"].?model.orValue("") == "channel"'
    return request("gpu", name="channels", expression=expression, count=count, **exactly)


def gpus(count: int = 1) -> Json:
    expression = 'device.attributes["gpu.apportion.dev"].?model.orValue("") == "h100"'
    return request("gpu", expression=expression, count=count)


def fabric(client: Client, reached: Json, count: int = 2) -> Reserving:
    """Return two nodes with two GPUs each, which reach so many channels of a fabric."""
    made = Reserving(client, {"n1": 2, "n2": 2})
    for name in ("n1", "n2"):
        made.world.node(name, cpu="64", zone="a")
    devices = [
        {"name": f"channel-{number}", "attributes": {"model": {"string": "channel"}}}
        for number in range(count)
    ]
    made.world.slice("", "fabric", {"nodeName": None, **reached, "devices": devices}, 1, pool="fabric")
    return made


@pytest.mark.parametrize("reached", REACHED.values(), ids=REACHED)
@pytest.mark.parametrize("with_gpu", [False, True])
async def test_who_needs_several_of_them_is_overtaken_by_no_small_ones(
    reached: Json, unanswered: Client, *, with_gpu: bool
) -> None:
    """Each time one ends a newer one comes: without a reservation it gets what the first of the queue waits for, for ever."""
    made = fabric(unanswered, reached)
    own = [gpus()] if with_gpu else []
    for number in range(2):
        place = {"affinity": on(f"n{number + 1}")}
        made.starts(f"old-{number}", wanted=[*own, channels(1)], spec=place)
    made.comes("large", wanted=[*own, channels(2)])
    made.passes()
    assert made.reserved.keys() == {"large"}
    served: list[str] = []
    for number in range(2):
        made.comes(f"new-{number}", wanted=[channels(1)])
        made.ends(f"old-{number}")
        served += made.passes()
    assert served == ["large"]


async def test_it_is_known_when_those_of_pods_on_other_nodes_end(unanswered: Client) -> None:
    """Who ends before uses what is free of them."""
    made = fabric(unanswered, REACHED["all nodes"])
    made.starts("old", wanted=[gpus(), channels(1)], runtime="1h")
    made.comes("large", wanted=[channels(2)])
    made.passes(0.0)
    assert [start for _, start in made.reserved.values()] == [3600]
    made.comes("silent", wanted=[channels(1)])
    made.comes("short", wanted=[channels(1)], runtime="30m")
    assert made.passes(0.0) == ["short"]
    made.world.clock.now += 1800.0
    made.ends("short")
    assert made.passes(0.0) == []
    made.ends("old")
    assert made.passes() == ["large"]


async def test_a_group_waits_for_those_that_one_claim_has(unanswered: Client) -> None:
    """Each of its pods needs one, on nodes of their own."""
    made = fabric(unanswered, REACHED["all nodes"])
    made.starts("old", wanted=[channels(2)])
    for number in range(2):
        made.comes(f"member-{number}", wanted=[gpus(2), channels(1)], group=("g", 2))
    made.passes()
    assert {name: nodes for name, (nodes, _) in made.reserved.items()} == {"g": ["n1", "n2"]}
    made.comes("new", wanted=[channels(1)])
    made.ends("old")
    assert sorted(made.passes()) == ["member-0", "member-1"]
