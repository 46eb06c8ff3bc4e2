"""CutStates: the states of a device that is cut into pieces, and the pieces that each state can still give.

In: each counter's amount on the whole device, and the counters that each piece takes (one vector per legal placement). Out:
a row per state that can be reached by cutting pieces; it comes after the rows of the states that it leads to. Vectors are
packed into one integer with a guard bit per counter: taking a piece is one subtraction, and one mask tests whether it fits.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import gcd
from typing import TypeAlias

Vector: TypeAlias = tuple[int, ...]

MOST_ROWS = 4096
"""States of one device. An H100 under a mix of five profiles has 298, a vNPU chip some 100."""

NOWHERE = -1
"""The row of a state where there are too many."""


class CutStates:
    """The states and the moves between them, without prices."""

    __slots__ = ("_guards", "_index", "_needs", "_packer", "full", "moves", "pieces")

    def __init__(self, full: Vector, pieces: Sequence[Iterable[Vector]]) -> None:
        pieces = [
            # A placement that takes nothing could be cut for ever.
            tuple(dict.fromkeys(need for need in placements if any(need) and _within(need, full)))
            for placements in pieces
        ]
        units = [
            reduce(gcd, (need[counter] for placements in pieces for need in placements), 0)
            for counter in range(len(full))
        ]
        self._packer: list[tuple[int, int, int]] = []
        """(counter, unit, shift) of each counter that some piece takes."""
        shift = 0
        self._guards = 0
        for counter, unit in enumerate(units):
            if unit:
                width = (full[counter] // unit).bit_length()
                self._packer.append((counter, unit, shift))
                self._guards |= 1 << shift + width
                shift += width + 1
        self.pieces = len(pieces)
        self._needs = tuple(
            (piece, packed)
            for piece, placements in enumerate(pieces)
            for packed in dict.fromkeys(self._pack(need) for need in placements)
        )
        self._index: dict[int, int] = {}
        self.moves: list[tuple[tuple[int, int], ...]] = []
        """Per row (piece, row after taking it) for each placement that fits; a row comes after the rows that it leads to."""
        self.full = self.row(full)

    def row(self, left: Vector) -> int:
        """Return the row of a state; `NOWHERE` if there are too many states."""
        packed = self._pack(left) | self._guards
        found = self._index.get(packed)
        return self._explore(packed) if found is None else found

    def _pack(self, amounts: Vector) -> int:
        return sum(max(amounts[counter], 0) // unit << shift for counter, unit, shift in self._packer)

    def _explore(self, start: int) -> int:
        index = self._index
        stack: list[tuple[int, list[tuple[int, int]]]] = [(start, self._moves_from(start))]
        seen = {start}
        while stack:
            state, moves = stack[-1]
            pending = [after for _, after in moves if after not in index and after not in seen]
            if pending:
                if len(index) + len(seen) >= MOST_ROWS:
                    return NOWHERE
                after = pending[0]
                seen.add(after)
                stack.append((after, self._moves_from(after)))
                continue
            index[state] = len(self.moves)
            self.moves.append(tuple((piece, index[after]) for piece, after in moves))
            stack.pop()
        return index[start]

    def _moves_from(self, state: int) -> list[tuple[int, int]]:
        guards = self._guards
        return [(piece, after) for piece, need in self._needs if (after := state - need) & guards == guards]

    def values(self, prices: Sequence[int], known: Sequence[int] = ()) -> list[int]:
        """Return the best total price of pieces that can still be cut, per row. `known`: the first rows' values."""
        values = list(known)
        for moves in self.moves[len(values) :]:
            best = 0
            for piece, after in moves:
                value = prices[piece] + values[after]
                best = max(best, value)
            values.append(best)
        return values

    def best(self, prices: Sequence[int]) -> tuple[int, ...]:
        """Return the pattern of greatest total price that the whole can be cut into: how many of each piece."""
        values = self.values(prices)
        counts = [0] * self.pieces
        row = self.full
        while values[row]:
            piece, row = next(
                (piece, after)
                for piece, after in self.moves[row]
                if prices[piece] + values[after] == values[row]
            )
            counts[piece] += 1
        return tuple(counts)

    def most(self, piece: int) -> int:
        """Return how many of one piece the whole gives."""
        return self.values([int(other == piece) for other in range(self.pieces)])[self.full]


def _within(need: Vector, full: Vector) -> bool:
    return all(amount <= there for amount, there in zip(need, full, strict=True))
