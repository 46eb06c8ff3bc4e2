"""What the operator does about cards that serve several claims, and what it tells about policies that share them."""

from datetime import UTC, datetime
from typing import Any

from apportion.cluster.kinds import CLAIMS, POLICIES
from apportion.partitions.actions import Create, Delete
from apportion.partitions.status import policy_status
from testbed.api import Json
from tests.observedcluster import ObservedCluster
from tests.partitions.onecard import FIRST, OneCard

SHARED = {"key": "apportion.dev/shared", "effect": "NoSchedule"}
WARM = {
    "metadata": {"name": "warm"},
    "spec": {
        "deviceClasses": {"names": ["gpu"]},
        "partitions": {"warm": [{"profile": "1g.10gb", "count": 2}]},
    },
}


def test_nothing_is_kept_warm_on_a_shared_card() -> None:
    """Its partitions serve nobody; once the card is not shared, they are cut."""
    card = OneCard()
    card.world.card("n1", taints=[SHARED])
    card.world.see(POLICIES, WARM)
    assert card.actions() == []
    card.world.card("n1")
    assert [type(action) for action in card.actions()] == [Create, Create]


def test_idle_partitions_leave_a_card_that_becomes_shared_and_used_ones_stay() -> None:
    """The first claim that shares the card would wait for them; a claim that has one keeps it."""
    card = OneCard()
    used = card.world.allocate(card.world.claim("c"), "n1", FIRST)
    card.world.see(POLICIES, WARM)
    card.carry_out()
    card.carry_out()
    assert len(card.partitions()) == 3
    card.world.card("n1", taints=[SHARED])
    card.carry_out()
    assert set(card.partitions()) == {FIRST}
    assert not [action for action in card.actions() if isinstance(action, Delete)]
    card.world.gone(CLAIMS, used)
    card.carry_out()
    card.carry_out()
    assert card.partitions() == {}


def sharing(name: str, made: str, **more: Any) -> Json:
    """Return a policy that shares the GPUs of nodes with the label kind=shared."""
    selector = {"matchLabels": {"kind": "shared"}}
    return {
        "metadata": {"name": name, "creationTimestamp": f"2026-01-01T00:00:{made}Z"},
        "spec": {
            "deviceClasses": {"names": [f"of-{name}"]},
            "sharing": [{"nodeSelector": selector, "mostClaims": 4, **more}],
        },
    }


def accepted(world: ObservedCluster, name: str) -> tuple[str, str, str]:
    """Return status, reason and message of a policy's condition."""
    found = next(each for each in world.snapshot.policies.values() if each.metadata.name == name)
    condition, *_ = policy_status(found, world.snapshot, datetime(2026, 1, 1, tzinfo=UTC))["conditions"]
    return condition["status"], condition["reason"], condition["message"]


def test_of_two_policies_that_share_a_node_the_newer_one_says_that_it_does_not() -> None:
    """It names field, node and the older policy; without the node both are accepted."""
    world = ObservedCluster()
    world.see(POLICIES, sharing("b-old", "01"))
    world.see(POLICIES, sharing("a-new", "02"))
    assert accepted(world, "a-new") == ("True", "Valid", "")
    world.node("n1", kind="shared")
    world.node("n2", kind="other")
    assert accepted(world, "b-old") == ("True", "Valid", "")
    assert accepted(world, "a-new") == (
        "False",
        "Overlap",
        "spec.sharing[0].nodeSelector: GPUs of n1 are shared by AllocationPolicy b-old, which is older",
    )
