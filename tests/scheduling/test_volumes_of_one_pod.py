"""A volume that one pod of the cluster uses at a time (ReadWriteOncePod) keeps others from their devices as long as it is used."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.evicting import ends, holds, joins, trial, waits
from tests.scheduling.volumes import volume, volume_claim, with_volume, zones


def one_pods(world: ObservedCluster) -> None:
    """Show the volume `data`, for one pod at a time, in zone a."""
    world.snapshot.volumes.complete = True
    volume(world, "a")
    volume_claim(world, "pv", asked={"accessModes": ["ReadWriteOncePod"]})


def user(world: ObservedCluster, name: str = "user", node: str = "n3", **metadata: Any) -> dict[str, Any]:
    """Show a pod without claims for devices that uses the volume."""
    own = {"name": name, "namespace": "team", "uid": name, **metadata}
    return world.see(PODS, {"metadata": own, "spec": {"nodeName": node, **with_volume()}})


def three(**nodes: str) -> ObservedCluster:
    return zones(n1="a", n2="a", n3="a", **nodes)


async def test_a_pod_gets_its_devices_once_the_one_that_uses_its_volume_is_over(unanswered: Client) -> None:
    """kube-scheduler lets no other pod onto any node until then; a pod in deletion uses it, too."""
    world = three()
    one_pods(world)
    there = user(world)
    world.wait_for("c", request("gpu"), spec=with_volume())
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    assert ("c", "ClaimsNotAllocated") in world.warned
    user(world, deletionTimestamp=world.time())
    cycle.once()
    assert world.places() == {}
    world.see(PODS, there | {"status": {"phase": "Succeeded"}})
    cycle.once()
    assert "c" in world.places()


async def test_its_event_says_which_volume(unanswered: Client) -> None:
    """It counts the nodes that the pod cannot go to, too."""
    world = three()
    one_pods(world)
    user(world)
    world.wait_for("c", request("gpu"), spec=with_volume())
    world.cycle(unanswered).once()
    assert any("3 volume data is used by another pod" in text for _, _, text in world.messages)


@pytest.mark.parametrize("mode", ["ReadWriteOnce", "ReadWriteMany"])
async def test_a_volume_of_several_pods_keeps_nobody_away(mode: str, unanswered: Client) -> None:
    """Those of one node, or of all."""
    world = three()
    volume(world, "a")
    volume_claim(world, "pv", asked={"accessModes": [mode]})
    user(world)
    world.wait_for("c", request("gpu"), spec=with_volume())
    world.cycle(unanswered).once()
    assert "c" in world.places()


async def test_a_volume_of_the_same_name_in_another_namespace_keeps_nobody_away(unanswered: Client) -> None:
    """A name is one namespace's."""
    world = three()
    one_pods(world)
    user(world, namespace="others")
    world.wait_for("c", request("gpu"), spec=with_volume())
    world.cycle(unanswered).once()
    assert "c" in world.places()


async def test_of_pods_that_wait_for_it_one_gets_devices(unanswered: Client) -> None:
    """An allocation sends it to its node before it is bound."""
    world = three()
    one_pods(world)
    for name in ("c", "d", "e"):
        world.wait_for(name, request("gpu"), spec=with_volume())
    cycle = world.cycle(unanswered)
    cycle.once()
    cycle.once()
    assert len(world.places()) == 1


async def test_a_pod_of_lower_priority_goes_for_it(unanswered: Client) -> None:
    """One of the same priority stays, and nobody goes in vain."""
    for priority, gone in ((1, ["low"]), (5, [])):
        found = trial(unanswered, 2)
        found.world.node("n1", cpu="64", **{"topology.kubernetes.io/zone": "a"})
        one_pods(found.world)
        holds(found.world, "low", 0, priority=priority, **with_volume())
        holds(found.world, "cheap", 1)
        waits(found.world, "high", 1, priority=5, **with_volume())
        await found.passes(3)
        assert found.evicted == gone
        if gone:
            ends(found.world, *gone)
            await found.passes()
            assert found.world.places()["high"] == "n1"


async def test_no_member_of_a_group_starts_where_all_ask_for_one_pods_volume(unanswered: Client) -> None:
    """One of them could start, and the others would keep their devices from others in vain."""
    found = trial(unanswered, 4)
    found.world.node("n1", cpu="64", **{"topology.kubernetes.io/zone": "a"})
    one_pods(found.world)
    joins(found.world, "a", "b")
    for pod in [each for each in found.world.snapshot.pods.values() if each.name in {"a", "b"}]:
        raw = dict(found.world.seen[PODS, "team", pod.name])
        raw["spec"] = raw["spec"] | with_volume()
        found.world.see(PODS, raw)
    await found.passes(3)
    assert not {"a", "b"} & found.world.places().keys()
