"""What is subtracted from the counters, and what is not."""

from dataclasses import replace

import pytest

from apportion.agent.devices.values import LivePartition, Placement
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, PartitionRow, Step
from apportion.agent.slices.compose import compose
from apportion.agent.slices.nodeinventory import PARTS_ONLY, held_for
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import SharingStrategy
from tests.agent.places import H100, MakeBackend, partition_place

DEVICE = "gpu-0-mig-1g10gb-19-3"


def holding(*devices: ClaimDevice) -> ClaimRow:
    """Return a claim that holds devices which it has lost."""
    return ClaimRow("c", "gpu.apportion.dev", "team", "forced", ClaimStep.PREPARED, devices)


def test_ours_for_claims_stays_layouts_and_foreign_ones_are_subtracted(make_backend: MakeBackend) -> None:
    """Allocations count the first kind; nobody else counts the other two."""
    backend = make_backend(cards=[H100])
    ours, layouts, foreign = (
        backend.create(partition_place(backend, "gpu-0", "1g.10gb", n)) for n in (0, 1, 2)
    )
    row = PartitionRow("u1", "n1", "gpu-0-mig-1g10gb-19-0", ours.place, Step.READY, uuid=ours.uuid)
    static = PartitionRow(
        "u2",
        "n2",
        "gpu-0-mig-1g10gb-19-1-static",
        layouts.place,
        Step.READY,
        layout="nightly",
        uuid=layouts.uuid,
    )
    rows = {"u1": row, "u2": static}
    made = compose(backend.devices(), backend.partitions(), rows, (), {})
    assert made.occupied == (layouts.place, foreign.place)
    assert [(s.device, s.uuid, s.layout) for s in made.static] == [
        ("gpu-0-mig-1g10gb-19-1-static", layouts.uuid, "nightly")
    ]


def test_a_layouts_partition_that_a_reboot_took_keeps_its_place(make_backend: MakeBackend) -> None:
    """It is made anew in a moment, and nobody else says so meanwhile: its object says Ready. A claim that got the whole card would wait for ever."""
    backend = make_backend(cards=[H100])
    place = partition_place(backend, "gpu-0", "1g.10gb", 1)
    (card,) = backend.devices()
    row = PartitionRow(
        "u", "n", f"{DEVICE}-static", place, Step.READY, "nightly", uuid="MIG-1", card_uuid=card.uuid
    )
    sharing = PublishedSharing(SharingStrategy.TIME_SLICING, 4)
    made = compose((card,), (), {"u": row}, (), {}, sharing=sharing)
    assert (made.occupied, made.static) == ((place,), ())
    assert (made.shared, made.not_shared) == ({}, {"gpu-0": "Layout"})
    for other in (
        replace(row, step=Step.RELEASING),
        replace(row, layout=""),
        replace(row, card_uuid="GPU-that-left"),
    ):
        assert compose((card,), (), {"u": other}, (), {}).occupied == ()


def test_the_place_of_a_partition_that_does_not_go_is_taken_from_its_card_and_from_no_other_of_that_name(
    make_backend: MakeBackend,
) -> None:
    """A chip was exchanged: what lay on the former one takes no room of that which is there now."""
    backend = make_backend(cards=[H100])
    place = partition_place(backend, "gpu-0", "1g.10gb", 1)
    (card,) = backend.devices()
    row = PartitionRow("u", "n", DEVICE, place, Step.RELEASING, uuid="MIG-1", card_uuid=card.uuid)
    for given in ({"left": frozenset({"u"})}, {"stuck": {"u"}}):
        assert compose((card,), (), {"u": row}, (), {}, **given).occupied == (place,)
        former = replace(row, card_uuid="GPU-that-left")
        made = compose((card,), (), {"u": former}, (), {}, **given)
        assert (made.occupied, made.taints) == ((), {})


def test_a_partition_that_a_stranger_made_in_our_place_is_foreign(make_backend: MakeBackend) -> None:
    """The UUID in the journal is another one: ours is gone."""
    backend = make_backend(cards=[H100])
    live = backend.create(partition_place(backend, "gpu-0", "1g.10gb", 3))
    row = PartitionRow("u", "n", DEVICE, live.place, Step.READY, uuid="MIG-of-before")
    assert compose(backend.devices(), (live,), {"u": row}, (), {}).occupied == (live.place,)
    half_made = replace(row, step=Step.INTENT, uuid="")
    assert compose(backend.devices(), (live,), {"u": half_made}, (), {}).occupied == ()


def test_a_shape_that_no_profile_describes_blocks_the_card(make_backend: MakeBackend) -> None:
    """Nobody can say what is left beside it."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 2}])
    odd = LivePartition("gpu-1", "1c.3g.40gb", Placement(0, 4), "MIG-odd")
    made = compose(backend.devices(), (odd,), {}, (), {})
    assert (made.blocked, made.taints) == ({"gpu-1"}, {})


@pytest.mark.parametrize("layout", ["", "nightly"])
@pytest.mark.parametrize("counters", [True, False])
def test_a_card_with_a_partition_of_ours_that_no_profile_describes_any_more_is_not_offered(
    make_backend: MakeBackend, layout: str, *, counters: bool
) -> None:
    """Nobody names a chip's templates now, and it would be offered whole while a claim has a part of it; without counters only a taint helps."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 2}])
    live = backend.create(partition_place(backend, "gpu-0", "1g.10gb", 3))
    row = PartitionRow("u", "n", DEVICE, live.place, Step.READY, layout, uuid=live.uuid)
    cards = tuple(
        replace(card, profiles=(), totals=card.totals if counters else {}) for card in backend.devices()
    )
    made = compose(cards, (live,), {"u": row}, (), {})
    assert made.blocked == {"gpu-0"}
    assert made.taints == ({} if counters else {"gpu-0": (PARTS_ONLY,)})


def test_a_card_that_a_lost_claim_looked_at_with_admin_access_stays_open(make_backend: MakeBackend) -> None:
    """Others may use it beside the containers that are left; the taint says only where those run."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 2}])
    watched = ClaimDevice("gpu-0", "gpu-0", "node-a", ("r",), "x", admin=True)
    made = compose(backend.devices(), (), {}, (holding(watched),), {})
    assert made.blocked == frozenset()
    assert made.taints == {"gpu-0": (held_for("c", blocks=False),)}


def test_of_more_claims_than_a_device_has_taints_those_that_block_are_named(
    make_backend: MakeBackend,
) -> None:
    """Four monitors came before the claim that has the card: without its taint the card would be offered to everybody."""
    backend = make_backend(cards=[H100])
    own = ClaimDevice("gpu-0", "gpu-0", "node-a", ("r",), "x")
    watches = replace(own, admin=True)
    held = (*(replace(holding(watches), uid=f"m{n}") for n in range(4)), holding(own))
    made = compose(backend.devices(), (), {}, held, {})
    assert made.taints == {"gpu-0": (held_for("c"), *(held_for(f"m{n}", blocks=False) for n in range(3)))}
    assert made.untainted == {"gpu-0": ("m3",)}


@pytest.mark.parametrize("lost", [False, True])
def test_a_partition_that_is_only_looked_at_takes_its_place_once_it_has_no_owner(
    make_backend: MakeBackend, *, lost: bool
) -> None:
    """As long as its owner has it allocations count it; after that nobody does, and it stays as long as it is looked at."""
    backend = make_backend(cards=[H100])
    live = backend.create(partition_place(backend, "gpu-0", "1g.10gb", 3))
    rows = {"u": PartitionRow("u", "n", DEVICE, live.place, Step.READY, uuid=live.uuid)}
    watched = ClaimDevice(DEVICE, "gpu-0", "node-a", ("r",), "x", partition="u", admin=True)
    held = (holding(watched),) if lost else ()
    taint = {DEVICE: (held_for("c", blocks=False),)} if lost else {}
    owned = compose(backend.devices(), (live,), rows, held, {})
    assert (owned.occupied, owned.taints) == ((), taint)
    alone = compose(backend.devices(), (live,), rows, held, {}, left=frozenset({"u"}))
    assert (alone.occupied, alone.taints) == ((live.place,), taint)


def test_a_held_partition_is_tainted_and_subtracted_a_held_card_altogether(make_backend: MakeBackend) -> None:
    """Deallocated means that no allocation counts it any more; the container may still use it."""
    backend = make_backend(cards=[{"model": "H100-80GB", "count": 2}])
    live = backend.create(partition_place(backend, "gpu-0", "1g.10gb", 3))
    row = PartitionRow("u", "n", DEVICE, live.place, Step.READY, uuid=live.uuid)
    part = ClaimDevice(DEVICE, "gpu-0", "node-a", ("r",), "x", partition="u")
    whole = ClaimDevice("gpu-1", "gpu-1", "node-a", ("r",), "x")
    made = compose(backend.devices(), (live,), {"u": row}, (holding(part, whole),), {})
    assert made.taints == {DEVICE: (held_for("c"),), "gpu-1": (held_for("c"),)}
    assert made.occupied == (live.place,)
    assert made.blocked == {"gpu-1"}
