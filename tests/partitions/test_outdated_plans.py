"""Layouts between two plans: what became of claims, layouts and holds since the last one."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import LAYOUTS, PARTITIONS, PODS
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Create
from tests.observedcluster import GPU, request
from tests.partitions.layoutworld import cards, plan
from tests.partitions.manycards import controller
from tests.partitions.test_leaving_partitions import OTHER, STATIC, Server, cut, layout_of, partition


async def test_a_partition_whose_layout_is_gone_is_deleted_only_once_it_is_held() -> None:
    """Its claim ends in the middle of a pass, whose next demand may get it while the deletion is sent: its pod could never start."""
    world, server = cut(), Server()
    world.allocate(world.claim("a", request("gpu")), "n1", STATIC.name)
    world.gone(*layout_of(world))
    async with server.client() as client:
        planning = controller(world, client)
        planning.reserve()
        world.gone_claim("a")
        await planning.act()
        assert world.snapshot.state.holders(STATIC) == ()
        assert server.deleted == [], "nobody keeps others from it yet"
        planning.reserve()
        assert world.snapshot.state.holders(STATIC) != ()
        await planning.act()
        assert server.deleted == [f"n1-{STATIC.name}"]


async def test_the_partitions_of_a_layout_that_can_be_read_once_more_stay() -> None:
    """A newer release wrote it, and a person puts it right: between two plans it was taken for gone."""
    world, server = cut(), Server()
    kind, raw = layout_of(world)
    world.gone(kind, raw)
    other = cards()
    other.see(LAYOUTS, raw | {"spec": {"partitions": "all"}})
    other.see(PARTITIONS, partition(world))
    async with server.client() as client:
        planning = controller(other, client)
        planning.reserve()
        await planning.act()
        other.see(LAYOUTS, raw)
        await planning.act()
        assert server.deleted == []


async def test_the_partitions_of_a_layout_that_could_not_be_read_go_with_it() -> None:
    """No epoch grows when an object goes of which nothing counted."""
    world, server = cards(), Server()
    raw = world.see(LAYOUTS, layout_of(cut())[1] | {"spec": {"partitions": "all"}})
    world.see(PARTITIONS, partition(cut()))
    async with server.client() as client:
        planning = controller(world, client)
        planning.reserve()
        world.gone(LAYOUTS, raw)
        assert planning.reserve()
        await planning.act()
        assert server.deleted == [f"n1-{STATIC.name}"]


@pytest.mark.parametrize("only_idle", [True, False])
async def test_a_layout_gets_a_card_that_was_held_for_a_while(unanswered: Client, *, only_idle: bool) -> None:
    """A reservation whose pod went, or a decision that could not be written, left it blocked until something else changed in the cluster."""
    world = cards()
    world.layout(rollout={"onlyIdle": only_idle})
    state, planning = world.snapshot.state, controller(world, unanswered)
    state.hold("reserved", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    planning.reserve()
    assert plan(world).blocked
    assert not planning.reserve()
    state.release("reserved")
    assert planning.reserve()
    assert state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-0")) != ()
    assert any(isinstance(action, Create) for action in plan(world).actions)
    assert not planning.reserve()


@pytest.mark.parametrize("kept", ["reserved", "by a pod whose claim is gone"])
@pytest.mark.parametrize("layout", ["gone", "edited", "edited, onlyIdle", "of other nodes"])
async def test_a_partition_that_is_given_up_goes_when_what_held_it_for_a_while_lets_go(
    layout: str, kept: str
) -> None:
    """Neither a reservation nor the end of a pod whose claim is gone makes an epoch grow: it kept its room of the card until something else changed in the cluster."""
    world, server = cut(), Server()
    kind, raw = layout_of(world)
    elsewhere = raw["spec"] | {"nodeSelector": {"matchLabels": {"a": "b"}}}
    changed = {
        "edited": {"partitions": [OTHER], "rollout": {"onlyIdle": False}},
        "edited, onlyIdle": {"partitions": [OTHER]},
        "of other nodes": elsewhere,
    }
    user = {"resource": "pods", "name": "p", "uid": "uid-team-pods-p"}
    world.allocate(world.claim("a", request("gpu")), "n1", STATIC.name, reservedFor=[user])
    pod = world.pod("p", "a", spec={"nodeName": "n1"})
    if kept == "reserved":
        world.snapshot.state.hold("reserved", [DeviceResult("r", STATIC)])
        world.gone(PODS, pod)
    if layout == "gone":
        world.gone(kind, raw)
    else:
        world.see(kind, raw | {"spec": changed[layout]})
    world.gone_claim("a")
    async with server.client() as client:
        planning = controller(world, client)
        planning.reserve()
        await planning.act()
        assert server.deleted == []
        if kept == "reserved":
            world.snapshot.state.release("reserved")
        else:
            world.gone(PODS, pod)
        assert planning.reserve()
        await planning.act()
        assert server.deleted == [f"n1-{STATIC.name}"]
