"""What the slices publish as counters is what the driver admits: no more, no less."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apportion.agent.devices import models
from apportion.agent.devices.values import Card, CardKind, LivePartition, PartitionPlace, Placement, Profile
from apportion.errors import NoRoom
from tests.agent.ascend.nodes import Nodes

NPUS = [name for name in models.names() if models.model(name).kind is CardKind.NPU]


def _fits(card: Card, live: list[LivePartition], profile: Profile) -> bool:
    """Say whether the counters of the chip's set cover one more: as the allocator counts."""
    used: Counter[str] = Counter()
    for one in live:
        shape = card.profile(one.profile)
        assert shape is not None
        used.update(shape.amounts)
    used.update(profile.amounts)
    return all(amount <= card.totals[key] for key, amount in used.items())


@pytest.mark.slow
@pytest.mark.parametrize("model", NPUS)
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)
@given(moves=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), max_size=20))
def test_a_vnpu_is_made_exactly_when_the_counters_admit_it(
    node_with: Nodes, model: str, moves: list[tuple[int, int]]
) -> None:
    """In any order of creations and removals, for every model; halves of a 310P's groups, which no counter tells, aside."""
    node = node_with([model])
    (card,) = node.backend.devices()
    profiles = [profile for profile in card.profiles if profile.amounts["aicore"] > 1]
    live: list[LivePartition] = []
    for choice, verb in moves:
        if verb == 0 and live:
            node.backend.destroy(live.pop(choice % len(live)))
            continue
        profile = profiles[choice % len(profiles)]
        taken = {one.placement.start for one in live}
        number = next((number for number in card.instance_ids if number not in taken), None)
        if number is None:
            continue
        place = PartitionPlace(card.name, profile.name, Placement(number, 1))
        if _fits(card, live, profile):
            live.append(node.backend.create(place))
        else:
            with pytest.raises(NoRoom, match="not enough"):
                node.backend.create(place)
        assert {one.place for one in node.backend.partitions()} == {one.place for one in live}
