"""How much work partitions are to the operator: it follows what changed, not what there is."""

import asyncio

import pytest

from apportion.api.partition import Phase
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PARTITIONS, POLICIES
from apportion.partitions.actions import SetHolder
from apportion.partitions.card import partitionable_card
from apportion.partitions.controller import PartitionController
from apportion.partitions.dynamicpartitions import DynamicPartitions
from apportion.partitions.status import policy_status
from testbed.cycle import now
from tests.partitions.manycards import controller, first_claim, many, whole
from tests.partitions.onecard import FIRST
from tests.steps import Steps, steps

FEW, MANY = 5, 50


async def test_the_phase_of_a_claim_costs_the_same_however_many_partitions_there_are(
    unanswered: Client,
) -> None:
    """It is asked for every gated pod in every pass."""
    counts = []
    for nodes in (FEW, MANY):
        world = many(nodes)
        made, claim = controller(world, unanswered), first_claim(world)
        assert made.phase(claim) == Phase.READY
        counts.append(steps(lambda: made.phase(claim)))  # noqa: B023 - called at once
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_what_partitions_need_follows_what_changed() -> None:
    """One claim ends: one card is looked at. Nothing changed: none is."""
    idle, changed = [], []
    for nodes in (FEW, MANY):
        world = many(nodes)
        wanted = DynamicPartitions(world.clock)
        assert wanted.actions(world.snapshot) == []
        idle.append(steps(lambda: wanted.actions(world.snapshot)))  # noqa: B023
        world.gone(CLAIMS, world.claim("c0"))
        changed.append(steps(lambda: wanted.actions(world.snapshot)))  # noqa: B023
        [released] = wanted.actions(world.snapshot)
        assert isinstance(released, SetHolder)
    assert idle[0] == idle[1] < 50
    assert changed[0] == changed[1]


def test_an_action_is_wanted_until_the_watch_shows_it_done() -> None:
    """A write can fail."""
    world = many(2)
    wanted = DynamicPartitions(world.clock)
    world.gone(CLAIMS, world.claim("c0"))
    for _ in range(3):
        [released] = wanted.actions(world.snapshot)
        assert released.partition.metadata.name == f"n0-{FIRST}"
    world.see(PARTITIONS, released.partition.to_json() | {"spec": _without_holder(released)})
    assert wanted.actions(world.snapshot) == []


def test_a_card_about_which_something_is_being_done_is_not_looked_at_meanwhile() -> None:
    """Before that has ended, or the card changes: a burst has hundreds of them, and a pass each moment."""
    world = many(MANY)
    wanted = DynamicPartitions(world.clock)
    for number in range(MANY):
        world.gone(CLAIMS, world.claim(f"c{number}"))
    names = {action.partition.metadata.name for action in wanted.actions(world.snapshot)}
    assert len(names) == MANY
    assert wanted.actions(world.snapshot, names) == []
    assert {action.partition.metadata.name for action in wanted.actions(world.snapshot)} == names
    world.allocate(world.claim("next"), "n3", FIRST)
    [handed_over] = wanted.actions(world.snapshot, names)
    assert isinstance(handed_over, SetHolder)
    assert handed_over.holder is not None
    assert handed_over.holder.name == "next"


def test_a_second_without_changes_costs_the_same_however_much_there_is(unanswered: Client) -> None:
    """Statuses of policies, partitions whose node is gone and orphans of layouts included."""

    async def second_act(made: PartitionController) -> int:
        await made.act()
        with Steps() as counted:
            await made.act()
        return counted.count

    counts = []
    for nodes in (FEW, MANY):
        world = many(nodes)
        policy = world.policy()
        (found,) = world.snapshot.policies.values()
        world.see(POLICIES, policy | {"status": policy_status(found, world.snapshot, now())})
        # In a loop of its own: others may run in that of all tests.
        counts.append(asyncio.run(second_act(controller(world, unanswered))))
    assert counts[1] < counts[0] + FEW


def test_others_run_while_all_cards_are_looked_at() -> None:
    """When an operator begins, or falls behind: what happens in between counts for the cards that are still to come."""
    world = many(MANY * 6)
    wanted = DynamicPartitions(world.clock)
    looks = wanted.steps(world.snapshot)
    for number in range(MANY * 6):
        world.gone(CLAIMS, world.claim(f"c{number}"))
    begun = {action.partition.spec.node_name for action in next(looks)}
    assert 0 < len(begun) <= MANY * 3
    late = max({f"n{number}" for number in range(MANY * 6)} - begun)
    world.allocate(world.claim("another"), late, FIRST)
    rest = [action for actions in looks for action in actions]
    (handed,) = [each for each in rest if each.partition.spec.node_name == late]
    assert isinstance(handed, SetHolder)
    assert handed.holder is not None
    assert handed.holder.name == "another"
    assert len(begun) + len(rest) == MANY * 6


def test_what_is_kept_warm_is_looked_for_until_there_is_room_for_it() -> None:
    """And on no card beyond, however many there are."""
    counts = []
    for nodes in (FEW, MANY):
        world = many(nodes)
        world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}]})
        wanted = DynamicPartitions(world.clock)
        with Steps(only=partitionable_card) as looked:
            [made] = wanted.actions(world.snapshot)
        assert made.partition.spec.profile == "1g.10gb"
        counts.append(looked.count)
    assert counts == [1, 1]


def test_in_a_full_cluster_room_for_what_is_kept_warm_is_looked_for_where_something_changed() -> None:
    """More is missing than a card that got room has room for: all cards were looked at once more then, 0.14 s for 1,600."""
    counts = []
    for nodes in (FEW, MANY):
        world = whole(nodes)
        world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 20}]})
        wanted = DynamicPartitions(world.clock)
        assert wanted.actions(world.snapshot) == []
        assert wanted.short() == {"1g.10gb": 20}
        looked = []
        for number in (1, 2):
            world.gone(CLAIMS, world.claim(f"c{number}"))
            with Steps(only=partitionable_card) as counted:
                made = wanted.actions(world.snapshot)
            assert {each.partition.spec.node_name for each in made} >= {f"n{number}"}
            looked.append(counted.count)
        counts.append(looked)
    assert counts[0] == counts[1]


def test_others_run_while_all_cards_are_looked_at_for_room() -> None:
    """When a policy that keeps partitions warm comes to a full cluster: 3 s for 40,000, by extrapolation."""
    world = whole(MANY * 6)
    wanted = DynamicPartitions(world.clock)
    wanted.actions(world.snapshot)
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}]})
    longest, steps_of, more = 0, wanted.steps(world.snapshot), True
    while more:
        with Steps(only=partitionable_card) as counted:
            more = next(steps_of, None) is not None
        longest = max(longest, counted.count)
    assert MANY < longest <= MANY * 3


def _without_holder(action: SetHolder) -> dict[str, object]:
    spec = action.partition.to_json()["spec"]
    return {key: value for key, value in spec.items() if key != "holder"}
