"""What the operator does about cards that serve several claims, and what it tells about policies that share them."""

from datetime import UTC, datetime
from typing import Any

import pytest

from apportion.api.selector import LabelSelector
from apportion.cluster.kinds import CLAIMS, POLICIES
from apportion.partitions.actions import Create, Delete
from apportion.partitions.sharednodes import taken_by_older
from apportion.partitions.status import policy_status
from apportion.partitions.unresolved import unresolved
from testbed.api import Json
from tests.observedcluster import ObservedCluster
from tests.partitions.onecard import FIRST, OneCard
from tests.steps import Steps

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


@pytest.mark.parametrize("zones", [("a", "b"), ("a", "")])
def test_nodes_of_one_kind_are_compared_with_the_entries_once(zones: tuple[str, str]) -> None:
    """A policy's status is compared each second: with 5,000 nodes and five policies that share GPUs that was a third of a second each, in one step."""
    world = ObservedCluster()
    for number in range(100):
        zone = zones[number % 2]
        labels = {"kind": "shared", "kubernetes.io/hostname": f"n{number}"} | ({"zone": zone} if zone else {})
        world.node(f"n{number}", **labels)
    of_a = {"matchLabels": {"zone": "a"}}
    other = {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}
    world.see(POLICIES, sharing("old", "01"))
    raw = sharing("new", "02")
    raw["spec"]["sharing"] = [{"nodeSelector": of_a}, {"nodeSelector": other}]
    world.see(POLICIES, raw)
    new = next(each for each in world.snapshot.policies.values() if each.metadata.name == "new")
    with Steps(only=LabelSelector.matches) as counted:
        said = taken_by_older(new, world.snapshot.policies.values(), world.snapshot.nodes.values())
    assert counted.count <= 6
    old = "are shared by AllocationPolicy old, which is older"
    assert said == (
        f"spec.sharing[0].nodeSelector: GPUs of n0, n10, n12 and 47 more {old};"
        f" spec.sharing[1].nodeSelector: GPUs of n1, n11, n13 and 47 more {old}"
    )


def test_nodes_of_one_kind_are_looked_at_once_for_an_entry_that_selects_none() -> None:
    """Sixteen entries for nodes that are to come took a fifth of a second, each second."""
    world = ObservedCluster()
    for number in range(100):
        world.node(f"n{number}", zone="ab"[number % 2])
    raw = sharing("new", "02")
    raw["spec"]["sharing"] = [{"nodeSelector": {"matchLabels": {"zone": each}}} for each in "acd"]
    world.see(POLICIES, raw)
    [new] = world.snapshot.policies.values()
    with Steps(only=LabelSelector.matches) as counted:
        found = [each.text for each in unresolved(new.spec, world.snapshot) if each.reason == "NoNodes"]
    assert counted.count <= 6
    assert found == [f"spec.sharing[{index}].nodeSelector: it selects no node" for index in (1, 2)]
