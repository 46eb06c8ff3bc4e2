"""Partitions that were to be kept warm, and that a card cannot be cut into."""

from apportion.cluster.kinds import PARTITIONS
from apportion.partitions.actions import Action, Create, Delete
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.observedcluster import ObservedCluster
from tests.partitions.onecard import FIRST


def two_cards() -> ObservedCluster:
    """Return two nodes with a card each, on one of which a small partition is to be kept warm."""
    world = ObservedCluster()
    world.device_class("gpu")
    for name in ("n1", "n2"):
        world.node(name)
        world.card(name)
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}], "idleTimeout": "0s"})
    return world


def carry_out(world: ObservedCluster, actions: list[Action], *, dead: str = "n1") -> list[tuple[str, str]]:
    """Show what the API server and the agents make of it; those of one node cannot cut its card. Returns what was done, and where."""
    for action in actions:
        raw = action.partition.to_json()
        if isinstance(action, Create):
            raw["metadata"]["uid"] = f"partition-{world.version}"
            phase = "Failed" if raw["spec"]["nodeName"] == dead else "Idle"
            world.see(PARTITIONS, raw | {"status": {"phase": phase}})
        elif isinstance(action, Delete):
            world.gone(PARTITIONS, raw)
    return [(type(action).__name__, action.partition.spec.node_name) for action in actions]


def test_a_card_that_cannot_be_cut_keeps_no_other_from_having_the_warm_partition() -> None:
    """It was made and deleted on the first card for ever, as fast as the API server and the agent answered."""
    world = two_cards()
    wanted = DynamicPartitions(world.clock)
    done = [carry_out(world, wanted.actions(world.snapshot)) for _ in range(4)]
    assert done == [[("Create", "n1")], [("Create", "n2")], [], []]
    world.clock.now += 10_000
    assert wanted.actions(world.snapshot) == []
    assert DynamicPartitions(world.clock).actions(world.snapshot) == [], "a new leader does as the former one"


def test_what_failed_goes_when_its_profile_is_kept_warm_no_more() -> None:
    """Nothing else would ever remove it."""
    world = two_cards()
    wanted = DynamicPartitions(world.clock)
    for _ in range(2):
        carry_out(world, wanted.actions(world.snapshot))
    world.policy(partitions={"idleTimeout": "1h"})
    assert carry_out(world, wanted.actions(world.snapshot)) == [("Delete", "n1")]


def test_what_failed_makes_room_for_a_claim() -> None:
    """A claim that got the whole card would wait for its place."""
    world = two_cards()
    wanted = DynamicPartitions(world.clock)
    for _ in range(2):
        carry_out(world, wanted.actions(world.snapshot))
    world.allocate(world.claim("c"), "n1", "gpu-0")
    assert carry_out(world, wanted.actions(world.snapshot)) == [("Delete", "n1")]


def test_what_failed_first_counts_once_its_agent_could_cut_it() -> None:
    """Agents try from time to time; what is then more than the policy keeps goes as other idle partitions do."""
    world = two_cards()
    wanted = DynamicPartitions(world.clock)
    for _ in range(2):
        carry_out(world, wanted.actions(world.snapshot))
    raw = world.seen[PARTITIONS, "", f"n1-{FIRST}"]
    world.clock.now += 1
    world.see(PARTITIONS, raw | {"status": {"phase": "Idle"}})
    assert len(carry_out(world, wanted.actions(world.snapshot))) == 1
    assert wanted.actions(world.snapshot) == []
