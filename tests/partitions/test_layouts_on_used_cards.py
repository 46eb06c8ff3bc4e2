"""Layouts on cards that somebody uses: they are left alone as long as they are used, and no longer."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import PARTITIONS
from apportion.dra.device import DeviceId
from apportion.partitions.actions import Create, Delete
from tests.observedcluster import GPU, ObservedCluster, request
from tests.partitions.layoutworld import cards, devices, plan, show_cut
from tests.partitions.manycards import controller
from tests.partitions.onecard import FIRST, HALF, OneCard

UPPER = {"profile": "3g.40gb", "placements": [{"start": 4}]}
SMALL = {"profile": "1g.10gb", "count": 1}


def cut(*, used: bool) -> ObservedCluster:
    """Return a node with two small partitions of a layout, of which a claim may have one."""
    world = cards()
    world.layout({"profile": "1g.10gb", "count": 2})
    show_cut(world, plan(world))
    if used:
        world.allocate(world.claim("a", request("gpu")), "n1", f"{FIRST}-static")
    return world


@pytest.mark.parametrize("used", [True, False])
def test_a_card_of_which_a_claim_has_a_partition_of_the_layout_is_not_changed(*, used: bool) -> None:
    """It was cut beside the claim's partition, and the unused one beside it was deleted."""
    world = cut(used=used)
    world.layout(SMALL, UPPER)
    found = plan(world)
    assert [type(each) for each in found.actions] == ([] if used else [Delete, Create])
    assert found.blocked == ({"n1": f"gpu-0 is in use ({FIRST}-static)"} if used else {})


def test_without_only_idle_what_nobody_uses_is_changed_at_once() -> None:
    """What is used stays."""
    world = cut(used=True)
    world.layout(SMALL, UPPER, rollout={"onlyIdle": False})
    found = plan(world)
    assert [type(each) for each in found.actions] == [Delete, Create]
    assert not found.blocked


def test_a_place_that_a_claim_has_for_another_layout_is_not_cut_for_it() -> None:
    """The layout is edited into one that wants what overlaps it."""
    world = cut(used=True)
    world.layout({"profile": "3g.40gb", "placements": [{"start": 0}]}, rollout={"onlyIdle": False})
    found = plan(world)
    assert devices(found) == []
    assert found.blocked == {"n1": f"gpu-0 is in use ({FIRST}-static)"}


def test_a_card_on_which_containers_still_run_is_not_idle() -> None:
    """Their claim has gone: a pod that was deleted by force."""
    card = OneCard()
    world = card.world
    claim = world.allocate(world.claim("a", request("gpu")), "n1", FIRST)
    card.carry_out()
    world.gone_claim("a")
    raw = world.seen[PARTITIONS, "", f"n1-{FIRST}"]
    prepared = {"phase": "Ready", "preparedBy": [claim["metadata"]["uid"]]}
    world.see(PARTITIONS, raw | {"status": prepared})
    world.layout(UPPER)
    assert plan(world).blocked == {"n1": f"gpu-0 is in use ({FIRST})"}
    world.see(PARTITIONS, raw | {"status": {"phase": "Ready"}})
    assert devices(plan(world)) == ["gpu-0-mig-3g40gb-9-4-static"]


async def test_a_layout_that_is_edited_is_not_kept_from_what_it_had_reserved_itself(
    unanswered: Client,
) -> None:
    """Beside a claim its former places counted as taken, and nothing looked again once they were free."""
    world = cards()
    world.allocate(world.claim("a", request("gpu")), "n1", "gpu-0-mig-1g10gb-19-6")
    lower = {"profile": "3g.40gb", "placements": [{"start": 0}]}
    world.layout(lower, rollout={"onlyIdle": False})
    planning, state = controller(world, unanswered), world.snapshot.state
    planning.reserve()
    assert state.holders(DeviceId(GPU, "n1", HALF)) != ()
    world.layout(SMALL, rollout={"onlyIdle": False})
    planning.reserve()
    assert not planning.reserve()
    assert state.holders(DeviceId(GPU, "n1", HALF)) == ()
    assert state.holders(DeviceId(GPU, "n1", FIRST)) != ()


async def test_an_older_layout_that_has_to_wait_keeps_no_younger_one_waiting(unanswered: Client) -> None:
    """A claim has what the older one wants; the other half is free."""
    world = cards()
    world.allocate(world.claim("a", request("gpu")), "n1", FIRST)
    world.layout({"profile": "3g.40gb", "placements": [{"start": 0}]}, name="a", rollout={"onlyIdle": False})
    world.layout(UPPER, name="b", rollout={"onlyIdle": False})
    planning = controller(world, unanswered)
    planning.reserve()
    (held,) = (world.snapshot.state.holders(DeviceId(GPU, "n1", "gpu-0-mig-3g40gb-9-4")),)
    assert held == ("PartitionLayout b on n1",)
