"""Claims that were allocated by hand, or by an older operator: nothing of a card is prepared for two, and never more than it has."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.agent.devices.values import MIB, Card, CardKind, Location
from apportion.agent.journal import Journal
from apportion.agent.kubelet.fit import check_fit, oversubscribed
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep, Share
from apportion.errors import NotReady

GPU, FPGA = "gpu.apportion.dev", "fpga.example.com"
NOWHERE = Location("", "")
SIZES: Mapping[str, Mapping[str, int]] = {
    "small": {"parts": 1, "lanes": 2},
    "large": {"parts": 1, "lanes": 5},
}


def gpu(mebibytes: int) -> dict[str, Card]:
    """Return a GPU with so much memory."""
    return {"gpu-0": Card("gpu-0", CardKind.GPU, "GPU-0", NOWHERE, capacity={"memory": mebibytes * MIB})}


def fpga(*sizes: str, lanes: int) -> dict[str, Card]:
    """Return a generic card with so many lanes, and parts of these sizes."""
    whole = Card("fpga-0", "fpga", "F", NOWHERE, totals={"parts": len(sizes), "lanes": lanes})
    parts = [
        Card(f"fpga-0-part-{n}", "fpga", f"F/{n}", NOWHERE, part_of="fpga-0", takes=SIZES[size])
        for n, size in enumerate(sizes)
    ]
    return {card.name: card for card in (whole, *parts)}


def claim(uid: str, *devices: ClaimDevice, driver: str = GPU) -> ClaimRow:
    """Return a claim's row."""
    return ClaimRow(uid, driver, "team", f"claim-{uid}", ClaimStep.PREPARING, devices)


def device(name: str, card: str = "", share: Share | None = None, *, admin: bool = False) -> ClaimDevice:
    """Return a device of a claim."""
    return ClaimDevice(name, card or name, "n1", ("r",), f"x={name}", admin=admin, share=share)


def shares(uid: str, *parts: Share) -> ClaimRow:
    """Return a claim with shares of gpu-0."""
    return claim(uid, *(device("gpu-0", share=part) for part in parts))


def reserve(journal: Journal, row: ClaimRow, cards: Mapping[str, Card]) -> None:
    """Reserve what a claim has, as prepare does."""
    journal.reserve(row, partial(check_fit, row, cards=cards))


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (shares("two", Share("mine", 31 * MIB, 10)), f"{31 * MIB} more do not fit"),
        (shares("two", Share("mine", 16 * MIB, 1), Share("too", 15 * MIB, 1)), f"{31 * MIB} more do not fit"),
        (
            shares("two", Share("mine", MIB, 41)),
            "gpu-0 has 100 percent of cores to share, of which 60 are prepared for ResourceClaim team/claim-one; 41 more",
        ),
        (shares("two", Share("mine", MIB, 101)), "101 more do not fit"),
        (shares("two", Share("theirs", MIB, 1)), "held by ResourceClaim team/claim-one"),
        (shares("two", Share("mine", MIB)), "held by ResourceClaim team/claim-one"),
        (claim("two", device("gpu-0")), "held by ResourceClaim team/claim-one"),
        (claim("two", device("gpu-0-mig-x", "gpu-0")), "held by ResourceClaim team/claim-one"),
    ],
    ids=[
        "too much", "too much together", "too many cores", "more cores than there are", "the same share",
        "without MPS", "the whole", "a partition",
    ],
)  # fmt: skip
def test_who_shares_a_device_is_disturbed_by_nobody(tmp_path: Path, wanted: ClaimRow, why: str) -> None:
    """What fits beside the share is reserved, and nothing else; what one has with admin access counts for nobody."""
    cards = gpu(60)
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        reserve(journal, shares("one", Share("theirs", 30 * MIB, 60)), cards)
        with pytest.raises(NotReady, match=why):
            reserve(journal, wanted, cards)
        reserve(journal, claim("admin", device("gpu-0", share=Share("a", 60 * MIB, 99), admin=True)), cards)
        reserve(journal, shares("three", Share("mine", 30 * MIB, 40)), cards)
        assert [row.uid for row in journal.claims()] == ["one", "admin", "three"]


@pytest.mark.parametrize(
    ("wanted", "most", "holders"),
    [
        (shares("two", Share("mine")), 2, None),
        (shares("two", Share("mine")), 1, ["one"]),
        (shares("two", Share("mine"), Share("too")), 2, ["one"]),
        (claim("two", device("gpu-1", share=Share("mine"))), 1, None),
        (claim("two", device("gpu-0", share=Share("mine"), admin=True)), 1, None),
        (claim("two", device("gpu-0")), 1, None),
    ],
    ids=["one more", "one too many", "two of one claim", "another card", "admin access", "no share"],
)
def test_shares_of_a_card_are_counted(wanted: ClaimRow, most: int, holders: list[str] | None) -> None:
    """Each share is one, also two of one claim; who has admin access or another card is none of those that have it."""
    others = [
        shares("one", Share("theirs")),
        claim("admin", device("gpu-0", share=Share("a"), admin=True)),
        claim("away", device("gpu-2", share=Share("b"))),
    ]
    found = oversubscribed(wanted, others, most)
    assert (found and (found.card, found.most, [row.uid for row in found.holders])) == (
        holders and ("gpu-0", most, holders)
    )


def test_a_card_that_has_another_name_by_now_is_prepared_for_nobody_else(tmp_path: Path) -> None:
    """The kernel names NICs in the order in which it finds them, and containers have the one that they were given."""

    def nic(uid: str, name: str, uuid: str, *, admin: bool = False) -> ClaimRow:
        return claim(uid, replace(device(name, admin=admin), card_uuid=uuid))

    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        reserve(journal, nic("one", "nic-mlx5-0", "NIC-1"), {})
        with pytest.raises(NotReady, match="device nic-mlx5-1 is held by ResourceClaim team/claim-one"):
            reserve(journal, nic("two", "nic-mlx5-1", "NIC-1"), {})
        reserve(journal, nic("admin", "nic-mlx5-1", "NIC-1", admin=True), {})
        reserve(journal, nic("three", "nic-mlx5-2", "NIC-11"), {})
        reserve(journal, nic("four", "nic-mlx5-3", ""), {})
        reserve(journal, nic("five", "nic-mlx5-4", ""), {})


def test_parts_take_no_more_than_their_card_has(tmp_path: Path) -> None:
    """Two parts may be free, and their lanes not: the claims that have them are named, also two of one name."""
    cards = fpga("large", "small", "large", "small", lanes=9)
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        for uid, part in (("one", 0), ("two", 1)):
            row = replace(claim(uid, device(f"fpga-0-part-{part}"), driver=FPGA), name="mine")
            reserve(journal, row, cards)
        why = (
            "fpga-0 has 9 lanes to share, of which 7 are prepared for ResourceClaim team/mine, ResourceClaim team/mine;"
            " 5 more do not fit"
        )
        with pytest.raises(NotReady, match=why):
            reserve(journal, claim("three", device("fpga-0-part-2"), driver=FPGA), cards)
        reserve(journal, claim("four", device("fpga-0-part-3"), driver=FPGA), cards)


def test_of_an_amount_that_is_not_known_nothing_is_given(tmp_path: Path) -> None:
    """As in the slice, where its counter is 0."""
    cards = fpga("small", lanes=9)
    cards["fpga-0"] = replace(cards["fpga-0"], totals={"parts": 1})
    with (
        closing(Journal(tmp_path / "journal.db", "b")) as journal,
        pytest.raises(NotReady, match="has 0 lanes to share, of which 0 are prepared for nobody; 2 more"),
    ):
        reserve(journal, claim("one", device("fpga-0-part-0"), driver=FPGA), cards)


@pytest.mark.slow
@given(
    sizes=st.lists(st.sampled_from(sorted(SIZES)), min_size=1, max_size=6),
    lanes=st.integers(0, 20),
    asked=st.lists(st.lists(st.integers(0, 5), min_size=1, max_size=3, unique=True), max_size=6),
)
def test_what_fits_is_given_and_no_amount_twice(sizes: list[str], lanes: int, asked: list[list[int]]) -> None:
    """Claims one after another, each judged anew from all that was given before."""
    cards = fpga(*sizes, lanes=lanes)
    given_rows: list[ClaimRow] = []
    for uid, numbers in enumerate(asked):
        names = [f"fpga-0-part-{number}" for number in numbers if number < len(sizes)]
        free = [
            name
            for name in names
            if not any(name == each.device for row in given_rows for each in row.devices)
        ]
        row = claim(str(uid), *(device(name) for name in free), driver=FPGA)
        used = Counter[str]()
        for each in [each for other in (*given_rows, row) for each in other.devices]:
            used.update(cards[each.device].takes)
        fits = not free or all(used[name] <= cards["fpga-0"].totals[name] for name in used)
        try:
            check_fit(row, given_rows, cards)
        except NotReady:
            assert not fits
        else:
            assert fits
            given_rows.append(row)
