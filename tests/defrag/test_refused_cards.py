"""A large cluster where few or none find another place is searched no longer than it takes to know that."""

import random

import pytest

from apportion.allocator.bits import bits
from apportion.allocator.defrag.moves import FreeCards, Movable
from apportion.allocator.defrag.plan import Planning
from apportion.allocator.defrag.refusedcards import RefusedCards
from apportion.allocator.defrag.replay import Replay
from apportion.allocator.demand import Demand
from apportion.allocator.state import State
from apportion.dra.allocation import DeviceResult
from tests.allocator.builders import SEVEN_ENGINES, claim, cluster, device_request, partitionable_slices
from tests.steps import Steps

WORLDS = 12


def crowded(nodes: int, kinds: dict[str, int], left: float, seed: int = 1) -> tuple[State, list[Movable]]:
    """Return nodes with two cards each that are filled with partitions, of which a share is taken out."""
    rng = random.Random(seed)  # noqa: S311 - a test that can be repeated
    names = [f"n{number}" for number in range(nodes)]
    state = cluster(
        *(row for name in names for row in partitionable_slices(name, 2, SEVEN_ENGINES)), nodes=names
    )
    movables: list[Movable] = []
    for name in names:
        while True:
            asked = rng.choices([*kinds], [*kinds.values()])[0]
            view = state.view(name)
            open_ = [
                index
                for index in bits(view.open)
                if view.devices[index].attribute("gpu.example.com/kind") == asked
            ]
            if not open_:
                break
            key = f"m{len(movables)}"
            results = (DeviceResult("r", view.id_of(rng.choice(open_))),)
            state.hold(key, results)
            demand = Demand((claim(key, device_request(kind=asked)),))
            movables.append(Movable(key, name, demand, {key: results}))
    gone = {each.key for each in rng.sample(movables, round(left * len(movables)))}
    for key in gone:
        state.release(key)
    return state, [each for each in movables if each.key not in gone]


def steps(state: State, movables: list[Movable], goal: FreeCards) -> list[tuple[str, object]]:
    """Return the moves of a plan as the search for large clusters finds it."""
    found = Planning(state, movables, {}, steps=0).plan(goal)
    return [] if found is None else [(move.movable.key, move.devices) for move in found.moves]


def test_on_a_full_cluster_few_are_asked_about() -> None:
    """Forty cards are full of the smallest partitions: when nobody of two cards finds a place nobody of the others does."""
    state, movables = crowded(20, {"one": 1}, 0.0)
    assert len(movables) == 280
    with Steps(only=Replay.move) as asked:
        assert Planning(state, movables, {}).plan(FreeCards(1)) is None
    assert 0 < asked.count < 10


@pytest.mark.slow
def test_who_is_left_out_would_have_found_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters that are nearly full: the plan is the one of a search that tries every card."""
    left_out = moved = 0
    cover = RefusedCards.cover

    def counting(refused: RefusedCards, asked: list[Movable]) -> bool:
        nonlocal left_out
        found = cover(refused, asked)
        left_out += found
        return found

    for seed in range(WORLDS):
        state, movables = crowded(6, {"one": 6, "two": 4, "three": 3}, (seed % 6) / 20, seed)
        goal = FreeCards(12)
        with monkeypatch.context() as patched:
            patched.setattr(RefusedCards, "cover", counting)
            found = steps(state, movables, goal)
        with monkeypatch.context() as patched:
            patched.setattr(RefusedCards, "cover", lambda *_: False)
            assert steps(state, movables, goal) == found, seed
        moved += bool(found)
    assert moved > WORLDS / 6
    assert left_out > WORLDS / 6
