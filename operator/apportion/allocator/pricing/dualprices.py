"""Dual prices of a cutting problem: the least number of wholes that serve a demand, each cut by one legal pattern.

minimise sum(x) where sum(x[p] * p[i]) = demand[i] for every piece i; its dual prices say which part of a whole a piece
is worth. Column generation (Gilmore and Gomory, 1961): patterns are asked for when they pay, never listed.
The basis inverse is held in integers over one common divisor (Edmonds' fraction-free pivots) and the ratio test is
lexicographic, so that nothing is rounded, nothing cycles, and equal or useless patterns do no harm.
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
    """Return the part of a whole that each piece is worth.

    `demand`: how often each piece is wanted, all above 0. `most`: how many of one piece a whole gives when it is cut
    into that piece only, all above 0. With legal patterns closed under leaving pieces out no price is negative, and no
    legal pattern is worth more than one whole.
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
    """Bring a pattern into the basis in place of the one that runs out first; return the new divisor."""
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
