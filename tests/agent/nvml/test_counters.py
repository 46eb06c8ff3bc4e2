"""What the slices publish as counters is what the driver admits: no more, no less."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.agent.devices import models
from apportion.agent.devices.values import Card, CardKind, LivePartition, PartitionPlace, Placement, Profile
from apportion.errors import NoRoom
from tests.agent.nvml.nodes import Nodes

GPUS = [name for name in models.names() if models.model(name).kind is CardKind.GPU]


def _fits(card: Card, live: list[LivePartition], profile: Profile, place: Placement) -> bool:
    """Say whether the counters of the card's set cover one more: as the allocator counts."""
    used: Counter[str] = Counter()
    for one in live:
        shape = card.profile(one.profile)
        assert shape is not None
        used.update(shape.amounts)
        used.update(_slices(one.placement))
    used.update(profile.amounts)
    used.update(_slices(place))
    limits = {**card.totals, **dict.fromkeys(_slices(Placement(0, card.slices)), 1)}
    return all(amount <= limits[key] for key, amount in used.items())


def _slices(place: Placement) -> list[str]:
    return [f"memory-slice-{index}" for index in range(place.start, place.start + place.size)]


@pytest.mark.slow
@pytest.mark.parametrize("model", GPUS)
@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(moves=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), max_size=16))
def test_a_partition_is_made_exactly_when_the_counters_admit_it(
    node_with: Nodes, model: str, moves: list[tuple[int, int]]
) -> None:
    """In any order of creations and removals, for every model."""
    node = node_with([model], mig=True)
    (card,) = node.backend.devices()
    placements = [(profile, placement) for profile in card.profiles for placement in profile.placements]
    live: list[LivePartition] = []
    for choice, verb in moves:
        if verb == 0 and live:
            node.backend.destroy(live.pop(choice % len(live)))
            continue
        profile, placement = placements[choice % len(placements)]
        place = PartitionPlace(card.name, profile.name, placement)
        if _fits(card, live, profile, placement):
            live.append(node.backend.create(place))
        else:
            with pytest.raises(NoRoom):
                node.backend.create(place)
        assert {one.place for one in node.backend.partitions()} == {one.place for one in live}
