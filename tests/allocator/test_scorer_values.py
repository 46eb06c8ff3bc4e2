"""What a strategy reads of devices decides whether nodes of one class share its outcomes."""

from collections.abc import Sequence

import pytest

from apportion.allocator.bits import bits
from apportion.allocator.closeness.closest import LadderScorer
from apportion.allocator.closeness.ladder import DEFAULT
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Score
from apportion.allocator.search.scorer import Scorer
from apportion.allocator.search.search import Search
from apportion.allocator.state import State
from tests.allocator.builders import GPU, cluster, device, device_slice


class FirstDevice(Scorer):
    """Reads no values."""

    def order(self, _search: Search, _candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices as published."""
        return tuple(bits(mask))

    def score(self, _search: Search) -> Score:
        """Rate all nodes alike."""
        return ()


class OfAmounts(FirstDevice):
    """Reads how much memory a device has."""

    amounts = frozenset({"memory"})


class OfValues(FirstDevice):
    """Reads which model a device is."""

    values = frozenset({f"{GPU}/model"})


class Comparing(FirstDevice):
    """Asks whether devices are of one model."""

    compared = (f"{GPU}/model",)


@pytest.fixture(scope="module")
def different() -> State:
    """A state whose nodes all differ in model and memory, so that one class has them all."""
    nodes = [f"n{index:03}" for index in range(60)]
    state = cluster(
        *(
            device_slice(
                node,
                node,
                [
                    device(f"gpu-{number}", capacity={"memory": {"value": f"{index + 1}Gi"}})
                    | {"attributes": {"model": {"string": f"{node}-{number}"}}}
                    for number in range(2)
                ],
            )
            for index, node in enumerate(nodes)
        ),
        nodes=nodes,
    )
    state.settle()
    assert state.class_count == 1
    return state


@pytest.mark.parametrize(
    "strategy", [OfAmounts(), OfValues(), Comparing()], ids=lambda each: type(each).__name__
)
def test_nodes_that_differ_in_what_a_strategy_reads_share_no_outcome(
    different: State, strategy: Scorer
) -> None:
    """With a ladder neither, which reads other attributes."""
    comparable = different.query_cache.comparable

    assert not comparable(strategy)
    assert not comparable(LadderScorer(strategy, DEFAULT))
    assert comparable(FirstDevice())
    assert comparable(LadderScorer(FirstDevice(), DEFAULT))
