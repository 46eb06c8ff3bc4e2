"""Claims that keep their devices when their pods end: nobody is evicted, and nothing is reserved, for what does not come free."""

import pytest

from apportion.api.contract import ALLOCATION_FINALIZER, GATE, KEEP_FOR
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS
from tests.observedcluster import Json, ObservedCluster
from tests.scheduling.evicting import holds, trial, waits
from tests.scheduling.reserving import DEVICES, Reserving

KEEP: Json = {KEEP_FOR: "240h"}
IMMEDIATE: Json = {GATE: "Immediate"}


def keep(world: ObservedCluster, name: str, annotations: Json) -> None:
    """Have a claim that was allocated so: with our finalizer alone, by which controller-manager deallocates nothing."""
    raw = world.seen[CLAIMS, "team", name]
    raw["metadata"] |= {"annotations": annotations, "finalizers": [ALLOCATION_FINALIZER]}
    world.see(CLAIMS, raw)


@pytest.mark.parametrize("annotations", [KEEP, IMMEDIATE], ids=["for a time", "for ever"])
async def test_nobody_is_evicted_whose_claim_keeps_its_devices(unanswered: Client, annotations: Json) -> None:
    """The pod would be gone, its next one too, and who waits has nothing."""
    made = trial(unanswered, 1)
    holds(made.world, "low", 0)
    keep(made.world, "low", annotations)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == []


async def test_an_annotation_that_comes_late_keeps_nothing(unanswered: Client) -> None:
    """The finalizer decides: controller-manager takes the devices of such a claim, so its pod is evicted as any other."""
    made = trial(unanswered, 1)
    holds(made.world, "low", 0)
    raw = made.world.seen[CLAIMS, "team", "low"]
    raw["metadata"]["annotations"] = KEEP
    made.world.see(CLAIMS, raw)
    waits(made.world, "high", 1, priority=5)
    await made.passes(4)
    assert made.evicted == ["low"]


@pytest.mark.parametrize("annotations", [KEEP, IMMEDIATE], ids=["for a time", "for ever"])
async def test_nothing_is_reserved_where_devices_stay_with_their_claim(
    unanswered: Client, annotations: Json
) -> None:
    """Its pod ends an hour before the other one, whose devices come free."""
    made = Reserving(unanswered, {"n1": DEVICES, "n2": DEVICES})
    for name, runtime in (("kept", "1h"), ("plain", "2h")):
        made.starts(name, DEVICES, runtime=runtime)
    keep(made.world, "kept", annotations)
    [other] = [node for name, node in made.world.places().items() if name == "plain"]
    made.comes("large", DEVICES)
    made.passes(0.0)
    assert [nodes for nodes, _ in made.reserved.values()] == [[other]]


async def test_nothing_is_reserved_where_devices_never_come_free(unanswered: Client) -> None:
    """A claim that was allocated without a pod keeps its devices until somebody deletes it."""
    made = Reserving(unanswered, {"n1": DEVICES})
    made.starts("kept", DEVICES, runtime="1h")
    keep(made.world, "kept", IMMEDIATE)
    made.comes("large", DEVICES)
    made.passes(0.0)
    assert made.reserved == {}
