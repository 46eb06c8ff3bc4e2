"""What the cycle learns of layouts before it decides."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import LAYOUTS
from apportion.dra.device import DeviceId
from tests.observedcluster import GPU, Json, request
from tests.partitions.layoutworld import cards, plan, publish, show_cut
from tests.partitions.manycards import controller

HALF = {"profile": "3g.40gb", "count": 1}


async def test_what_is_not_cut_yet_is_held_under_the_name_of_its_layout(unanswered: Client) -> None:
    """Refusals name the holder. On the node that is left as it is nothing is held anew."""
    world = cards("n1", "n2")
    world.layout({"profile": "3g.40gb", "count": 1}, name="halves")
    planning, state = controller(world, unanswered), world.snapshot.state
    halves = [DeviceId(GPU, node, "gpu-0-mig-3g40gb-9-0") for node in ("n1", "n2")]
    planning.reserve()
    assert [state.holders(half) for half in halves] == [
        ("PartitionLayout halves on n1",),
        ("PartitionLayout halves on n2",),
    ]
    show_cut(world, plan(world))
    settled = state.settle()
    before = settled.of("n2")
    planning.reserve()
    assert [state.holders(half) for half in halves] == [(), ("PartitionLayout halves on n2",)]
    assert state.settle().of("n2") is before


async def test_reserving_says_whether_anything_changed_since_the_last_plan(unanswered: Client) -> None:
    """A change wakes the task that writes; a pass in which nothing changed does not."""
    world = cards()
    world.layout({"profile": "3g.40gb", "placements": [{"start": 4}]})
    planning = controller(world, unanswered)
    assert planning.reserve()
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-4")) != ()
    assert not planning.reserve()
    world.node("n2")
    assert planning.reserve()


async def test_what_is_cut_is_held_until_a_slice_has_it(unanswered: Client) -> None:
    """Its node says that it is ready some moments before its slices do: a pod that got the whole card meanwhile could never start."""
    world = cards()
    world.device_class("gpu", f'device.attributes["{GPU}"].type == "gpu"')
    world.layout({"profile": "3g.40gb", "count": 1})
    world.wait_for("a", request("gpu"))
    show_cut(world, plan(world), published=False)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    publish(world, "n1", "gpu-0-mig-3g40gb-9-0-static")
    cycle.once()
    assert world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-0")) == ()


@pytest.mark.parametrize(
    "spec",
    [
        {"partitions": [HALF], "devices": [{"cel": {"expression": "device.driver =="}}]},
        {"partitions": [HALF | {"count": 3}]},
        None,
    ],
    ids=["unreadable selector", "too many", "deleted"],
)
async def test_what_is_being_cut_is_held_whatever_becomes_of_its_layout(
    unanswered: Client, spec: Json | None
) -> None:
    """The agent goes on with it: a pod that got the whole card meanwhile could never start."""
    world = cards()
    world.device_class("gpu", f'device.attributes["{GPU}"].type == "gpu"')
    raw = world.layout(HALF)
    world.wait_for("a", request("gpu"))
    show_cut(world, plan(world), "Creating", published=False)
    if spec is None:
        world.gone(LAYOUTS, raw)
    else:
        world.see(LAYOUTS, raw | {"spec": spec})
    world.cycle(unanswered).once()
    assert world.places() == {}
