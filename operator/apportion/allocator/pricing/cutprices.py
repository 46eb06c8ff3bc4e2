"""CutPrices: the value of each state of a device that is cut: the best value of demanded pieces that still fit.

In: the device's cut states, and how often each piece is demanded. Out: an integer per state, `UNIT` for a whole device.
Prices of pieces are the dual prices of cutting whole devices into the demand (see `dualprices`), so no whole is worth more
than `UNIT`, and a state with room only for pieces without demand is worth nothing. Every placement that is still possible
adds a little.
"""

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import prod
from typing import TypeAlias

from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector

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


UNIT = 1 << 20
"""One whole device. Sums of integers are exact in any order of addition."""

LITTLE = 16
"""Every possible placement of a piece adds a sixteenth of its squared price: among states of equal value the one with
more possible placements wins, above all of large pieces, which are the hardest to free room for."""


class CutPrices:
    """Values of the states of one cut device under one demand."""

    __slots__ = ("_choices", "_values", "prices", "states")

    def __init__(self, states: CutStates, demand: Sequence[int]) -> None:
        self.states = states
        self.prices = _prices(states, demand)
        """Price of each piece; 0 without demand, or where the piece fits nowhere."""
        self._values: list[int] = []
        self._choices: dict[int, int] = {}
        """By row what the placements still possible add."""

    def worth(self, left: Vector) -> int | None:
        """Return the value of a state; None where there are too many states."""
        row = self.states.row(left)
        if row == NOWHERE:
            return None
        if row >= len(self._values):
            self._values = self.states.values(self.prices, self._values)
        choice = self._choices.get(row)
        if choice is None:
            prices = self.prices
            total = sum([prices[piece] * prices[piece] for piece, _ in self.states.moves[row]])
            choice = self._choices[row] = total // (UNIT * LITTLE)
        return self._values[row] + choice


def _prices(states: CutStates, demand: Sequence[int]) -> list[int]:
    prices = [0] * states.pieces
    if states.full == NOWHERE:
        return prices
    demanded = [piece for piece, count in enumerate(demand) if count and states.most(piece)]
    if not demanded:
        return prices

    def best(values: Sequence[int]) -> tuple[int, ...]:
        by_piece = [0] * states.pieces
        for piece, value in zip(demanded, values, strict=True):
            by_piece[piece] = value
        counts = states.best(by_piece)
        return tuple(counts[piece] for piece in demanded)

    duals = dual_prices(
        [demand[piece] for piece in demanded], [states.most(piece) for piece in demanded], best
    )
    for piece, price in zip(demanded, duals, strict=True):
        prices[piece] = round(price * UNIT)
    return prices
