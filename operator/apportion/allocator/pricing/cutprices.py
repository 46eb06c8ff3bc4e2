"""What a state of a thing that is cut is worth: the best value of demanded pieces that can still be cut from it.

In: a board and how often each piece is asked for. Out: an integer per state, `UNIT` for a whole. Prices of pieces are
the dual prices of cutting wholes into the demand (see `duals`), so no whole is worth more than `UNIT` and a state that
only pieces fit that nobody asks for is worth nothing. A little comes on top for every place where a piece is still possible.
"""

from collections.abc import Sequence

from apportion.allocator.pricing.cutstates import NOWHERE, CutStates, Vector
from apportion.allocator.pricing.dualprices import dual_prices

UNIT = 1 << 20
"""One whole. Integers compare exactly, whatever the order in which they were added."""

LITTLE = 16
"""Every place for a piece counts for a sixteenth of its price squared: among states that hold as much, the one that
leaves more choice wins, above all for large pieces, which are the hardest to make room for again."""


class CutPrices:
    """Values of the states of one board under one demand."""

    __slots__ = ("_values", "prices", "states")

    def __init__(self, states: CutStates, demand: Sequence[int]) -> None:
        self.states = states
        self.prices = _prices(states, demand)
        """What each piece is worth; 0 for one that nobody asks for or that fits nowhere."""
        self._values: list[int] = []

    def worth(self, left: Vector) -> int | None:
        """Return what a state is worth; None on a board that has too many states."""
        row = self.states.row(left)
        if row == NOWHERE:
            return None
        if row >= len(self._values):
            self._values = self.states.values(self.prices, self._values)
        prices = self.prices
        choice = sum(prices[piece] * prices[piece] for piece, _ in self.states.moves[row])
        return self._values[row] + choice // (UNIT * LITTLE)


def _prices(states: CutStates, demand: Sequence[int]) -> list[int]:
    prices = [0] * states.pieces
    if states.full == NOWHERE:
        return prices
    wanted = [piece for piece, count in enumerate(demand) if count and states.most(piece)]
    if not wanted:
        return prices

    def best(values: Sequence[int]) -> tuple[int, ...]:
        spread = [0] * states.pieces
        for piece, value in zip(wanted, values, strict=True):
            spread[piece] = value
        counts = states.best(spread)
        return tuple(counts[piece] for piece in wanted)

    found = dual_prices([demand[piece] for piece in wanted], [states.most(piece) for piece in wanted], best)
    for piece, price in zip(wanted, found, strict=True):
        prices[piece] = round(price * UNIT)
    return prices
