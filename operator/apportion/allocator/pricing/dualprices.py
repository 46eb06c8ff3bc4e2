"""Dual prices of a cutting problem: the least number of wholes that serve a demand, each cut by one legal pattern.

minimise sum(x) where sum(x[p] * p[i]) = demand[i] for every piece i; its dual prices give the value of each piece as a
fraction of a whole. Column generation (Gilmore and Gomory, 1961) requests patterns that improve the solution, and lists none.
The basis inverse is held in integers over one common divisor (Edmonds' fraction-free pivots) and the ratio test is
lexicographic: nothing is rounded, nothing cycles, and equal or useless patterns are allowed.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TypeAlias

Pattern: TypeAlias = tuple[int, ...]
"""How many of each piece come out of one whole."""

BestPattern: TypeAlias = Callable[[Sequence[int]], Pattern]
"""Returns a legal pattern of the greatest total value, given the value of each piece."""


def dual_prices(demand: Sequence[int], most: Sequence[int], best: BestPattern) -> tuple[Fraction, ...]:
    """Return the value of each piece as a fraction of a whole.

    `demand`: how often each piece is demanded, all above 0. `most`: how many of one piece a whole gives when it is cut
    into that piece only, all above 0. Where every legal pattern stays legal without some of its pieces, no price is
    negative and no legal pattern is worth more than one whole.
    """
    pieces = range(len(demand))
    divisor = prod(most)
    inverse = [[divisor // most[i] if i == j else 0 for j in pieces] for i in pieces]
    while True:
        values = [sum(row[i] for row in inverse) for i in pieces]
        pattern = best(values)
        if sum(value * count for value, count in zip(values, pattern, strict=True)) <= divisor:
            return tuple(Fraction(value, divisor) for value in values)
        divisor = _enter(inverse, divisor, pattern, demand)


def _enter(inverse: list[list[int]], divisor: int, pattern: Pattern, demand: Sequence[int]) -> int:
    """Bring a pattern into the basis in place of the pattern that runs out first; return the new divisor."""
    column = [sum(a * b for a, b in zip(row, pattern, strict=True)) for row in inverse]
    amounts = [sum(a * b for a, b in zip(row, demand, strict=True)) for row in inverse]

    def ratios(i: int) -> list[Fraction]:
        return [Fraction(value, column[i]) for value in (amounts[i], *inverse[i])]

    first = min((i for i, value in enumerate(column) if value > 0), key=ratios)
    pivot, pivot_row = column[first], inverse[first]
    for i, row in enumerate(inverse):
        if i != first:
            inverse[i] = [(a * pivot - column[i] * b) // divisor for a, b in zip(row, pivot_row, strict=True)]
    return pivot
