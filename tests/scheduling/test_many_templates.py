"""Pods that name thousands of templates, as admission names those of rewritten pods, or that ask for many extended resources."""

import asyncio
from collections import Counter

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIM_TEMPLATES, CLASSES
from apportion.scheduling.demands.extendedresources import ExtendedResources
from apportion.scheduling.events.unservedevents import extended_resource
from tests.cluster.apiserver import Json
from tests.observedcluster import ObservedCluster
from tests.scheduling.longeststep import longest_step

GATED = ("apportion.dev/allocation",)
NAMED, PODS = 128, 64


def crowd() -> ObservedCluster:
    """One namespace names 8,192 templates, another one names one."""
    world = ObservedCluster()
    for number in range(9):
        world.device_class(f"c{number}")
    names = [f"apportion-{count}-c{number}" for number in range(9) for count in range(1, 1_000)]
    for pod in range(PODS):
        rows = [
            {"name": f"n{number}", "resourceClaimTemplateName": name}
            for number, name in enumerate(names[pod * NAMED : (pod + 1) * NAMED])
        ]
        world.pod(f"p{pod}", gates=GATED, spec={"resourceClaims": rows})
    one = [{"name": "n", "resourceClaimTemplateName": "apportion-2-c0"}]
    world.pod("p", gates=GATED, spec={"resourceClaims": one}, namespace="other")
    return world


class Making(Client):
    """Keeps who asked for a template, and answers after a while."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    async def create(self, kind: object, body: Json, *, namespace: str = "", **_: object) -> Json:
        assert kind == CLAIM_TEMPLATES
        self.asked.append((namespace, body["metadata"]["name"]))
        await asyncio.sleep(0)
        return {}


async def test_one_namespace_makes_few_at_once_and_keeps_no_other_one_from_its_own() -> None:
    """Each template was a task of its own at once, every two seconds anew for as long as pods named it: thousands of them held everybody up for a fifth of a second."""
    client = Making()
    cycle = crowd().cycle(client)
    for _ in range(2):
        cycle.once()
        for _ in range(50):
            await asyncio.sleep(0)
    assert Counter(namespace for namespace, _ in client.asked) == {"team": 64, "other": 1}


def test_each_template_of_a_crowd_has_its_turn() -> None:
    """Though claims may never come of those before it."""
    world = crowd()
    found = ExtendedResources(world.snapshot, world.clock)
    asked = [found.templates() for _ in range(NAMED * PODS // 64)]
    assert {len(each) for each in asked} == {65}
    assert sum(each.namespace == "team" for each in set().union(*asked)) == NAMED * PODS


@pytest.mark.parametrize("goes", [False, True])
async def test_of_resources_that_nobody_serves_people_hear_one_after_the_other(
    unanswered: Client, *, goes: bool
) -> None:
    """For each of them all nodes are gone through: 64 pods that ask for 80 each held everybody up for a twentieth of a second. A class may go in between."""
    world = ObservedCluster()
    classes = [world.device_class(f"c{number}") for number in range(12)]
    asked = {f"deviceclass.resource.kubernetes.io/c{number}": "1" for number in range(12)}
    for pod in range(8):
        world.pod(f"p{pod}", spec={"containers": [{"name": "m", "resources": {"requests": asked}}]})
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += 6
    if not goes:
        assert longest_step(cycle, extended_resource) == 1
        assert len(world.messages) == 8 * 12
        return
    for _ in cycle._pass(longest=1e9, evaluates=False):
        if len(world.messages) == 3 and classes:
            while classes:
                world.gone(CLASSES, classes.pop())
    assert len(world.messages) == 3
