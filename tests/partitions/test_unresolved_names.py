"""Names in an AllocationPolicy that stand for nothing: a condition and an Event say so, and the policy is followed all the same."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLASSES, POLICIES, SLICES
from apportion.partitions.status import policy_status
from testbed.cycle import now
from tests.observedcluster import GPU, ObservedCluster
from tests.partitions.manycards import controller
from tests.partitions.onecard import OneCard

Json = dict[str, Any]


def resolved(world: ObservedCluster) -> tuple[str, str, str]:
    """Return status, reason and message of the only policy's condition."""
    [found] = world.snapshot.policies.values()
    [condition] = [
        each
        for each in policy_status(found, world.snapshot, now())["conditions"]
        if each["type"] == "Resolved"
    ]
    return condition["status"], condition["reason"], condition["message"]


def one_card() -> ObservedCluster:
    """Return a node with a label and a card, and the class of the card."""
    world = OneCard().world
    world.node("n1", **{"example.com/rack": "a"})
    return world


def warm(*profiles: str) -> Json:
    """Return settings that keep partitions of profiles."""
    return {"warm": [{"profile": each, "count": 1} for each in profiles]}


ATTRIBUTE = f"{GPU}/type"
FLAWS: dict[str, tuple[Json, str, str]] = {
    "classes": (
        {"deviceClasses": {"selector": {"matchLabels": {"example.com/team": "a"}}}},
        "UnknownClass",
        "spec.deviceClasses.selector: it selects no DeviceClass",
    ),
    "warm profile": (
        {"partitions": warm("1g.10gb", "1g.10bg")},
        "NotPublished",
        "spec.partitions.warm[1].profile: no node offers a device with profile 1g.10bg; did you mean 1g.10gb?",
    ),
    "profile of another make": (
        {"partitions": warm("vir05_1c_16g")},
        "NotPublished",
        "spec.partitions.warm[0].profile: no node offers a device with profile vir05_1c_16g",
    ),
    "profile of the demand": (
        {"demand": {"source": "Profiles", "profiles": [{"profile": "3g.40g"}]}},
        "NotPublished",
        "spec.demand.profiles[0].profile: no node offers a device with profile 3g.40g; did you mean 3g.40gb?",
    ),
    "attribute": (
        {"ladder": [{"attribute": f"{GPU}/typ"}]},
        "NotPublished",
        f"spec.ladder[0].attribute: no node offers a device with attribute {GPU}/typ; did you mean {ATTRIBUTE}?",
    ),
    "driver": (
        {"ladder": [{"attribute": ATTRIBUTE, "drivers": ["gpu.aportion.dev"]}]},
        "NotPublished",
        "spec.ladder[0].drivers[0]: no node offers a device with driver gpu.aportion.dev; did you mean gpu.apportion.dev?",
    ),
    "attribute of one driver": (
        {"ladder": [{"attribute": ATTRIBUTE, "perDriver": [{"driver": GPU, "attribute": f"{GPU}/tipe"}]}]},
        "NotPublished",
        f"spec.ladder[0].perDriver[0].attribute: no node offers a device with attribute {GPU}/tipe; did you mean {ATTRIBUTE}?",
    ),
    "label": (
        {"groupLadder": [{"nodeLabel": "example.com/rac"}]},
        "NoNodes",
        "spec.groupLadder[0].nodeLabel: no node has the label example.com/rac; did you mean example.com/rack?",
    ),
    "nodes": (
        {"sharing": [{"nodeSelector": {"matchLabels": {"example.com/rack": "b"}}}]},
        "NoNodes",
        "spec.sharing[0].nodeSelector: it selects no node",
    ),
}


@pytest.mark.parametrize("flaw", FLAWS)
def test_a_name_of_nothing_is_named_with_its_field_and_what_was_probably_meant(flaw: str) -> None:
    """Accepted stays true: a node that brings it may come."""
    spec, reason, message = FLAWS[flaw]
    world = one_card()
    world.policy(**spec)
    assert resolved(world) == ("False", reason, message)


def test_a_class_that_does_not_exist_is_named_until_it_does() -> None:
    """And again when it is gone."""
    world = one_card()
    world.policy(classes=("gpu", "pgu"))
    missing = "spec.deviceClasses.names[1]: DeviceClass pgu does not exist; did you mean gpu?"
    assert resolved(world) == ("False", "UnknownClass", missing)
    made = world.device_class("pgu")
    assert resolved(world) == ("True", "Valid", "")
    world.gone(CLASSES, made)
    assert resolved(world)[0] == "False"


def test_a_policy_for_more_kinds_of_cards_than_there_are_is_resolved() -> None:
    """As the policies that come with apportion: no NIC is there, and nothing that is called nearly like its driver."""
    world = one_card()
    nic = {"driver": "rdma.example.com", "attribute": "rdma.example.com/socket"}
    world.policy(ladder=[{"attribute": ATTRIBUTE, "perDriver": [nic]}], partitions=warm("1g.10gb"))
    assert resolved(world) == ("True", "Valid", "")


def test_what_is_published_is_followed() -> None:
    """A card that comes and goes, in several versions of its slices."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.policy(partitions=warm("1g.10gb"))
    assert resolved(world)[1] == "NotPublished"
    for node in ("n1", "n2", "n1"):
        world.node(node)
        world.card(node)
        assert resolved(world) == ("True", "Valid", "")
    for piece in [*world.snapshot.slices.values()]:
        assert resolved(world) == ("True", "Valid", "")
        world.gone(SLICES, {"metadata": {"uid": piece.uid, "name": piece.name}})
    assert resolved(world)[1] == "NotPublished"
    assert not world.snapshot.devices.names.attributes


def test_a_warm_count_for_which_there_is_no_room_is_said_until_there_is() -> None:
    """A card has seven places for the smallest profile; nine are wanted. Another card has room for the rest."""
    card = OneCard()
    world = card.world
    world.policy(partitions={"warm": [{"profile": "1g.10gb", "count": 9}]})
    wanted = card.wanted

    def said() -> tuple[str, str]:
        [found] = world.snapshot.policies.values()
        status = policy_status(found, world.snapshot, now(), wanted.short())
        return next(
            (each["reason"], each["message"]) for each in status["conditions"] if each["type"] == "Warm"
        )

    card.carry_out()
    card.carry_out()
    assert said() == ("NoRoom", "spec.partitions.warm[0].count: no card has room for 2 more 1g.10gb")
    world.node("n2")
    world.card("n2")
    card.carry_out()
    card.carry_out()
    assert said() == ("Complete", "")


async def test_an_event_says_it_once(unanswered: Client) -> None:
    """Not again as long as the condition says the same; the warm partitions that can be cut are."""
    card = OneCard()
    world = card.world
    policy = world.policy(partitions=warm("1g.10bg", "1g.10gb"))
    made = controller(world, unanswered)
    await made.act()
    text = FLAWS["warm profile"][2].replace("warm[1]", "warm[0]")
    assert world.messages == [("p", "Unresolved", text)]
    [found] = world.snapshot.policies.values()
    world.see(POLICIES, policy | {"status": policy_status(found, world.snapshot, now())})
    world.clock.now += 600
    await made.act()
    assert len(world.messages) == 1
    assert [action.partition.spec.profile for action in card.actions()] == ["1g.10gb"]
