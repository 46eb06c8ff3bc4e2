"""GRMU as a baseline does what its overview says, on cards small enough to be followed by hand; and the requests of a trace as partitions."""

from pathlib import Path

import orjson
import pytest

from bench.defragbaselines import Cluster
from bench.defragtrace import Request, horizon, profile
from bench.grmu import Grmu
from tests.allocator.publishednode import PublishedNode, state_of
from tests.bench.running import program
from tests.shared import shared


def grmu(cards: int, heavy: float = 1.0) -> Grmu:
    """Return GRMU on a node with so many empty cards."""
    state = state_of(PublishedNode({"cards": [{"model": "H100-80GB", "count": cards}]}))
    return Grmu(Cluster(state, {}), heavy)


def kind(found: Grmu, profile_: str) -> int:
    """Return the kind of a profile."""
    cluster = found.cluster
    card = cluster.cards[0]
    locals_ = range(len(cluster.layout.masks))
    return next(
        cluster.kind(local) for local in locals_ if f"-mig-{profile_}-" in cluster.device(card, local).name
    )


def places(found: Grmu) -> dict[str, str]:
    """Return card, profile and first memory slice of each request."""
    return {key: device.name for key, device in found.cluster.claims.items()}


def test_who_is_refused_makes_a_card_be_laid_out_anew() -> None:
    """By hand: the driver's rule puts single slices at 6, 4, 5, then 0; the one at 0 is left alone, is in the way of the half there, and goes to 6."""
    found = grmu(1)
    small, half = kind(found, "1g10gb"), kind(found, "4g40gb")
    assert all(found.place(name, small) for name in "abcd")
    assert [places(found)[name][-1] for name in "abcd"] == ["6", "4", "5", "0"]
    for name in "abc":
        found.end(name)
    assert found.place("half", half)
    assert {name: place[-1] for name, place in places(found).items()} == {"d": "6", "half": "0"}
    assert found.moved == {"d"}


def test_two_cards_with_half_a_card_each_are_merged() -> None:
    """By hand: halves of both kinds fit beside each other; the second card is then free for a whole one."""
    found = grmu(2)
    three, four, whole = (kind(found, each) for each in ("3g40gb", "4g40gb", "7g80gb"))
    assert [found.place("x", three), found.place("y", four), found.place("z", three)] == [True] * 3
    found.end("x")
    assert not found.place("early", whole)
    found.consolidate()
    assert found.moved == {"z"}
    assert {name: place[:5] for name, place in places(found).items()} == {"y": "gpu-0", "z": "gpu-0"}
    assert found.place("whole", whole)


def test_the_largest_profile_gets_no_more_cards_than_its_basket() -> None:
    """Half of four cards each; a small request finds a card although two whole ones are refused."""
    found = grmu(4, 0.5)
    small, whole = kind(found, "1g10gb"), kind(found, "7g80gb")
    assert [found.place(name, whole) for name in "abc"] == [True, True, False]
    assert found.place("small", small)
    found.end("a")
    assert found.place("c", whole)


@pytest.mark.parametrize(
    ("milli", "name"),
    [
        (1, "1g.10gb"),
        (142, "1g.10gb"),
        (143, "2g.20gb"),
        (460, "4g.40gb"),
        (572, "7g.80gb"),
        (1000, "7g.80gb"),
    ],
)
def test_a_share_is_the_smallest_profile_that_has_it(milli: int, name: str) -> None:
    """In sevenths of a card."""
    assert profile(milli) == name


def test_requests_come_so_fast_that_they_ask_for_the_load() -> None:
    """By hand: four whole cards for 10 s each are 40 card-seconds, on two cards at half of what they have 40 s; none stays beyond the end of these."""
    requests = [Request(str(number), "7g.80gb", 10.0) for number in range(4)]
    assert horizon(requests, 0.5, 2) == pytest.approx(40.0)


@pytest.mark.slow
def test_what_is_moved_and_accepted_is_counted_for_all(tmp_path: Path) -> None:
    """Some requests of the trace on few cards: nobody is moved without moves, and no request is lost."""
    shared("data/openb/README.md")
    file = tmp_path / "figures"
    done = program("bench.defragtrace", "--nodes", "3", "--limit", "150", "--load", "1", "--json", file)
    assert done.returncode == 0, done.stderr
    rows = {row["by"]: row for row in orjson.loads(file.read_bytes())}
    assert len(rows) == 6
    for name, row in rows.items():
        assert 0 < row["accepted"] <= row["requests"] == 150
        assert row["moved"] <= row["accepted"]
        assert row["moved"] == 0 or "no moves" not in name
