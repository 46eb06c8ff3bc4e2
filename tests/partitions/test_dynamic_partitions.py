"""Which Partition objects should exist, and held by whom."""

from apportion.api.partition import Origin
from apportion.cluster.kinds import CLAIMS, PARTITIONS, POLICIES, SLICES
from apportion.partitions.dynamicpartitions import Create, Delete, SetHolder
from tests.partitions.onecard import FIRST, HALF, OneCard


def test_an_allocated_placement_becomes_a_partition_once() -> None:
    """With parent, profile and placement as published; the second pass finds it made."""
    card = OneCard()
    card.world.allocate(card.world.claim("c"), "n1", FIRST)
    (made,) = card.carry_out()
    assert isinstance(made, Create)
    spec = made.partition.spec
    assert (made.partition.metadata.name, spec.parent, spec.profile) == (f"n1-{FIRST}", "gpu-0", "1g.10gb")
    assert spec.placement is not None
    assert (spec.placement.start, spec.placement.size, spec.origin) == (0, 1, Origin.CLAIM)
    assert made.partition.metadata.finalizers == ("apportion.dev/agent",)
    assert card.actions() == []


def test_a_whole_card_needs_no_partition() -> None:
    """Nothing is cut for it."""
    card = OneCard()
    card.world.allocate(card.world.claim("c"), "n1", "gpu-0")
    assert card.actions() == []


def test_a_released_partition_idles_is_reused_and_goes_when_it_was_idle_for_too_long() -> None:
    """Kept warm for the policy's idle timeout, five minutes if nothing else is said."""
    card = OneCard()
    claim = card.world.allocate(card.world.claim("first"), "n1", FIRST)
    card.carry_out()
    card.world.gone(CLAIMS, claim)
    (released,) = card.carry_out()
    assert isinstance(released, SetHolder)
    assert released.holder is None
    assert card.actions() == []
    card.clock.now = 299
    assert card.actions() == []
    card.world.allocate(card.world.claim("second"), "n1", FIRST)
    (held,) = card.carry_out()
    assert isinstance(held, SetHolder)
    assert held.holder is not None
    assert held.holder.name == "second"
    card.world.gone(CLAIMS, card.world.claim("second"))
    card.carry_out()
    card.actions()
    card.clock.now += 301
    (gone,) = card.carry_out()
    assert isinstance(gone, Delete)


def test_a_partition_idles_as_long_as_the_policy_of_its_last_holder_says() -> None:
    """Other classes may keep theirs for longer."""
    card = OneCard()
    card.world.device_class("other")
    card.world.see(
        POLICIES,
        {
            "metadata": {"name": "short"},
            "spec": {"deviceClasses": {"names": ["gpu"]}, "partitions": {"idleTimeout": "1s"}},
        },
    )
    claim = card.world.claim("c")
    card.world.allocate(claim, "n1", FIRST)
    card.carry_out()
    card.carry_out()
    card.world.gone(CLAIMS, claim)
    card.carry_out()
    card.carry_out()
    card.clock.now += 2
    assert [type(action) for action in card.carry_out()] == [Delete]


def test_an_idle_partition_is_deleted_for_what_needs_its_room() -> None:
    """Only those in the way go: a half of the card needs slices 0 to 3."""
    card = OneCard()
    claims = [
        card.world.allocate(card.world.claim(f"c{n}"), "n1", f"gpu-0-mig-1g10gb-19-{n}") for n in (0, 6)
    ]
    card.carry_out()
    for claim in claims:
        card.world.gone(CLAIMS, claim)
    card.carry_out()
    card.world.allocate(card.world.claim("half"), "n1", HALF)
    done = card.carry_out()
    assert [a.partition.spec.device for a in done if isinstance(a, Delete)] == [FIRST]
    assert [a.partition.spec.device for a in done if isinstance(a, Create)] == [HALF]
    card.world.allocate(card.world.claim("half"), "n1", "gpu-0")
    assert "gpu-0-mig-1g10gb-19-6" in {
        a.partition.spec.device for a in card.actions() if isinstance(a, Delete)
    }


def test_a_partition_that_a_container_uses_is_never_idle() -> None:
    """Even when its claim is gone: the agent still has it prepared."""
    card = OneCard()
    claim = card.world.allocate(card.world.claim("c"), "n1", FIRST)
    card.carry_out()
    raw = card.partitions()[FIRST].to_json()
    raw["status"]["preparedBy"] = [claim["metadata"]["uid"]]
    card.world.see(PARTITIONS, raw)
    card.world.gone(CLAIMS, claim)
    card.carry_out()
    card.clock.now = 10_000
    assert not any(isinstance(action, Delete) for action in card.actions())


def test_a_wiped_slice_does_not_cost_a_claim_its_partition() -> None:
    """The claim's allocation says who holds it, not the slice."""
    card = OneCard()
    card.world.allocate(card.world.claim("c"), "n1", FIRST)
    card.carry_out()
    for found in list(card.world.snapshot.slices.values()):
        card.world.gone(SLICES, {"metadata": {"uid": found.uid, "name": found.name}})
    assert card.actions() == []


def test_warm_partitions_are_cut_ahead_and_kept() -> None:
    """As many idle ones of a profile as the policy says, where they fit."""
    card = OneCard()
    policy = {
        "metadata": {"name": "p"},
        "spec": {
            "deviceClasses": {"names": ["gpu"]},
            "partitions": {"warm": [{"profile": "1g.10gb", "count": 2}], "idleTimeout": "1s"},
        },
    }
    card.world.see(POLICIES, policy)
    done = card.carry_out()
    assert [a.partition.spec.origin for a in done if isinstance(a, Create)] == [Origin.WARM, Origin.WARM]
    card.clock.now = 100
    assert card.actions() == []
    card.world.allocate(card.world.claim("c"), "n1", FIRST)
    done = card.carry_out()
    assert [a.holder.name for a in done if isinstance(a, SetHolder) and a.holder] == ["c"]
    assert len([a for a in done if isinstance(a, Create)]) == 1
