"""Dual prices and values of shares, against a search through every basis of the linear program."""

from fractions import Fraction
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.pricing.cutprices import dual_prices
from bench.openb.bound.sharevalues import share_values

Sizes = tuple[int, ...]

sizes = st.lists(st.integers(30, 95).map(lambda tens: 10 * tens), min_size=1, max_size=3, unique=True)


def patterns(of: Sizes, whole: int) -> list[Sizes]:
    """Return every pattern that cuts a whole device, wasteful ones too."""
    counts = product(*(range(whole // size + 1) for size in of))
    return [count for count in counts if sum(n * size for n, size in zip(count, of, strict=True)) <= whole]


def solve(columns: tuple[Sizes, ...], demand: Sizes) -> list[Fraction] | None:
    """Return how often each column is used to meet the demand exactly, by elimination; None: no single answer."""
    rows = [[Fraction(column[i]) for column in columns] + [Fraction(demand[i])] for i in range(len(demand))]
    for i in range(len(rows)):
        pivot = next((r for r in range(i, len(rows)) if rows[r][i]), None)
        if pivot is None:
            return None
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for r, row in enumerate(rows):
            if r != i:
                rows[r] = [a - row[i] * b for a, b in zip(row, rows[i], strict=True)]
    return [row[-1] for row in rows]


def fewest_wholes(of: Sizes, demand: Sizes) -> Fraction:
    """The optimum lies at a vertex, and every vertex has as many columns as there are sizes."""
    columns = [pattern for pattern in patterns(of, 1000) if any(pattern)]
    found = (solve(chosen, demand) for chosen in combinations(columns, len(of)))
    return min(sum(used, Fraction()) for used in found if used is not None and min(used) >= 0)


def prices(of: Sizes, demand: Sizes) -> tuple[Fraction, ...]:
    def best(values: tuple[int, ...] | list[int]) -> Sizes:
        value = lambda pattern: sum(a * b for a, b in zip(values, pattern, strict=True))  # noqa: E731
        return max(patterns(of, 1000), key=value)

    return dual_prices(demand, [1000 // size for size in of], best)


@pytest.mark.slow
@given(st.data(), sizes)
def test_prices_add_up_to_the_fewest_wholes_that_serve_the_demand(data: st.DataObject, of: list[int]) -> None:
    """By duality, prices under which no whole is worth more than one, and that value the demand at the optimum, are optimal."""
    demand = tuple(data.draw(st.integers(1, 40)) for _ in of)
    found = prices(tuple(of), demand)

    assert min(found) >= 0
    for pattern in patterns(tuple(of), 1000):
        assert sum(count * price for count, price in zip(pattern, found, strict=True)) <= 1
    value = sum(count * price for count, price in zip(demand, found, strict=True))
    assert value == fewest_wholes(tuple(of), demand)


@pytest.mark.slow
@given(st.data(), sizes)
def test_the_value_of_free_milli_is_that_of_the_best_cut_that_fits(
    data: st.DataObject, of: list[int]
) -> None:
    """The table agrees with trying every cut."""
    demand = {size: data.draw(st.integers(1, 40)) for size in sorted(of)}
    values = share_values(demand)
    found = prices(tuple(sorted(of)), tuple(demand.values()))
    for free in range(0, 1000, 130):
        best = max(
            sum(count * float(price) for count, price in zip(cut, found, strict=True))
            for cut in patterns(tuple(sorted(of)), free)
        )
        assert abs(values[free] - best) < 1e-9
    assert values[1000] == 1


def test_free_milli_that_no_pod_requests_have_no_value() -> None:
    """The 190 milli next to an 810 share have none; the 530 next to a 470 share fit another 470."""
    values = share_values({810: 100, 470: 80})
    assert values[190] == 0
    assert values[530] == values[470] == 0.5
    assert values[810] == 1


def test_without_shares_only_whole_devices_have_a_value() -> None:
    """Under a demand for whole devices only, a device with less than all milli free has no value."""
    values = share_values({1000: 5})
    assert values[999] == 0
    assert values[1000] == 1
