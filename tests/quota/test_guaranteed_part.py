"""Which part of a quota's use is guaranteed: that of the highest priorities, whichever pods go."""

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.quota.guaranteed import GuaranteedPart
from apportion.quota.use import QuotaUse
from tests.quota.quotas import quota

ROWS = st.lists(st.tuples(st.integers(-1, 3), st.tuples(st.integers(0, 3), st.integers(0, 3))), max_size=7)
"""Priority of each claim, and what it takes of two resources."""
GUARANTEES = st.tuples(st.integers(0, 6), st.integers(0, 6))


def part(rows: Sequence[tuple[int, tuple[int, int]]], guarantees: Sequence[int]) -> GuaranteedPart:
    entries = [
        {"name": name, "deviceClass": name, "guaranteed": amount}
        for name, amount in zip("ab", guarantees, strict=True)
    ]
    use = QuotaUse(quota("q", *entries), frozenset())
    return GuaranteedPart(use, [(priority, [10**9 * each for each in amounts]) for priority, amounts in rows])


def guaranteed(rows: Sequence[tuple[int, tuple[int, int]]], guarantees: Sequence[int]) -> list[list[int]]:
    """Return the priorities of the units that are guaranteed of each resource, the highest first."""
    return [
        sorted((priority for priority, amounts in rows for _ in range(amounts[index])), reverse=True)[:most]
        for index, most in enumerate(guarantees)
    ]


@pytest.mark.slow
@given(ROWS, GUARANTEES, st.data())
def test_claims_may_go_exactly_when_as_much_stays_guaranteed_to_as_high_priorities(
    rows: list[tuple[int, tuple[int, int]]], guarantees: tuple[int, int], data: st.DataObject
) -> None:
    """Judged by a list of all units."""
    going = data.draw(st.sets(st.sampled_from(range(len(rows)))) if rows else st.just(set()))
    found = part(rows, guarantees)
    counted: Counter[str] = Counter()
    for index in going:
        priority, amounts = rows[index]
        counted.update(found.counted(priority, [10**9 * each for each in amounts]))
    allowance = found.allowance()
    staying = [row for index, row in enumerate(rows) if index not in going]
    same = guaranteed(staying, guarantees) == guaranteed(rows, guarantees)
    assert all(amount <= allowance[key] for key, amount in counted.items()) == same


@pytest.mark.slow
@given(ROWS, GUARANTEES, st.integers(-1, 3), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_a_demand_raises_the_guaranteed_part_exactly_when_some_of_it_is_guaranteed(
    rows: list[tuple[int, tuple[int, int]]],
    guarantees: tuple[int, int],
    priority: int,
    asked: tuple[int, int],
) -> None:
    """In place of units of lower priority, or of none."""
    before = guaranteed(rows, guarantees)
    after = guaranteed([*rows, (priority, asked)], guarantees)
    assert part(rows, guarantees).rises(priority, [10**9 * each for each in asked]) == (after != before)
