"""What the benchmarks say of times that come by two watches: that of pods may be ahead of that of claims."""

import asyncio
from typing import Any, cast

from bench.endtoend.timeline import Timeline
from bench.gangs.bystanders import Followed
from bench.gangs.world import PodsOf
from testbed.api import Api
from tests.clock import Clock

# Nobody asks it: events are given by hand.
API = cast("Api", None)


def a_claim(name: str) -> dict[str, Any]:
    """Return a claim with devices that was made for a pod of this name."""
    metadata = {"name": name, "ownerReferences": [{"name": name}]}
    return {"metadata": metadata, "status": {"allocation": {}}}


def test_a_pod_that_is_seen_with_a_node_had_its_devices_by_then() -> None:
    """Else a run that ends with its last pod would have fewer claims with devices than pods that are bound."""
    clock = Clock(1.0)
    timeline = Timeline(API, "team", 2, clock)
    timeline._see_claim("a", a_claim("a"))
    for clock.now, name in ((2.0, "a"), (3.0, "b")):
        timeline._see_pod(name, {"metadata": {"name": name}, "spec": {"nodeName": "n"}})
    assert timeline.all_bound.is_set()
    clock.now = 4.0
    timeline._see_claim("b", a_claim("b"))
    assert timeline.bound == {"a": 2.0, "b": 3.0}
    assert timeline.allocated == timeline.claimed == {"a": 1.0, "b": 3.0}


async def test_a_pod_that_is_seen_without_a_gate_had_its_devices_by_then() -> None:
    """The group had all of its devices no later than all of its pods were let go."""
    followed = Followed(API, PodsOf("team"))
    see_claim, see_pod = (each._changed for each in followed.lists._reflectors)
    see_claim("a", a_claim("a"))
    for name in ("a", "b"):
        await asyncio.sleep(0.001)
        see_pod(name, {"metadata": {"name": name}, "spec": {}})
    await asyncio.sleep(0.001)
    see_claim("b", a_claim("b"))
    assert followed.allocated["b"] > followed.let_go["b"]
    assert followed.had_devices() == {"a": followed.allocated["a"], "b": followed.let_go["b"]}
