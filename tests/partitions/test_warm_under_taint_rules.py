"""Partitions kept warm, and DeviceTaintRules: where one keeps claims off, none is made, and none counts."""

from apportion.cluster.kinds import TAINT_RULES
from apportion.partitions.dynamicpartitions import DynamicPartitions
from tests.observedcluster import ObservedCluster
from tests.partitions.test_warm_failures import carry_out, two_cards


def leave_alone(world: ObservedCluster, node: str, effect: str = "NoSchedule") -> None:
    """Show the rule by which a person leaves all devices of a node alone."""
    spec = {
        "deviceSelector": {"driver": "gpu.apportion.dev", "pool": node},
        "taint": {"key": "example.com/repair", "effect": effect},
    }
    world.see(TAINT_RULES, {"metadata": {"name": f"repair-{node}"}, "spec": spec})


def test_none_is_made_where_a_rule_keeps_claims_off() -> None:
    """The first node would be the first that it is tried on."""
    world = two_cards()
    leave_alone(world, "n1")
    wanted = DynamicPartitions(world.clock)
    assert carry_out(world, wanted.actions(world.snapshot), dead="") == [("Create", "n2")]
    assert wanted.actions(world.snapshot) == []


def test_one_counts_no_more_when_a_rule_comes_and_once_more_when_it_goes() -> None:
    """No card changes then."""
    world = two_cards()
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 1}], "idleTimeout": "1m"})
    wanted = DynamicPartitions(world.clock)

    def act() -> list[tuple[str, str]]:
        return carry_out(world, wanted.actions(world.snapshot), dead="")

    assert act() == [("Create", "n1")]
    leave_alone(world, "n1")
    assert act() == [("Create", "n2")]
    assert act() == []
    world.clock.now += 61
    assert act() == [("Delete", "n1")]
    leave_alone(world, "n2")
    assert act() == [("Delete", "n2")]
    assert act() == []
    assert wanted.short() == {"1g.10gb": 1}
    world.gone(TAINT_RULES, world.seen[TAINT_RULES, "", "repair-n1"])
    assert act() == [("Create", "n1")]
    assert act() == []


def test_a_rule_that_keeps_no_claim_off_changes_nothing() -> None:
    """A preference, or no effect yet: its author looks first at what it covers."""
    world = two_cards()
    leave_alone(world, "n1", effect="None")
    actions = DynamicPartitions(world.clock).actions(world.snapshot)
    assert carry_out(world, actions, dead="") == [("Create", "n1")]
