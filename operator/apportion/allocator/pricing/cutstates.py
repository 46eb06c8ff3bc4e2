"""The states of a thing that is cut: what can still be taken from it, and what is left then.

In: how much of each counter the whole has, and what each piece may take (one vector per legal placement). Out: a row
per state that can be reached by cutting pieces, children first. Vectors are packed into one integer with a guard bit
per counter, so that taking a piece is one subtraction and asking whether it fits is one mask.
"""

from collections.abc import Iterable, Sequence
from functools import reduce
from math import gcd
from typing import TypeAlias

Vector: TypeAlias = tuple[int, ...]

MOST_ROWS = 4096
"""States of one board. An H100 under a mix of five profiles has 298, a vNPU chip some 100."""

NOWHERE = -1
"""The row of a state on a board that has too many."""


class CutStates:
    """Which states follow which. Knows nothing of prices."""

    __slots__ = ("_guards", "_index", "_needs", "_packer", "full", "moves", "pieces")

    def __init__(self, full: Vector, pieces: Sequence[Iterable[Vector]]) -> None:
        pieces = [
            # A placement that takes nothing could be cut for ever.
            tuple(dict.fromkeys(one for one in ways if any(one) and _within(one, full)))
            for ways in pieces
        ]
        units = [
            reduce(gcd, (way[counter] for ways in pieces for way in ways), 0) for counter in range(len(full))
        ]
        self._packer: list[tuple[int, int, int]] = []
        """(counter, unit, shift) of every counter that some piece takes."""
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
            (piece, need)
            for piece, ways in enumerate(pieces)
            for need in dict.fromkeys(self._plain(way) for way in ways)
        )
        self._index: dict[int, int] = {}
        self.moves: list[tuple[tuple[int, int], ...]] = []
        """Per row (piece, row then) for every way to go on; rows that follow come before."""
        self.full = self.row(full)

    def row(self, left: Vector) -> int:
        """Return the row of a state, `NOWHERE` if the board would grow too large."""
        packed = self._plain(left) | self._guards
        found = self._index.get(packed)
        return self._explore(packed) if found is None else found

    def _plain(self, amounts: Vector) -> int:
        return sum(max(amounts[counter], 0) // unit << shift for counter, unit, shift in self._packer)

    def _explore(self, start: int) -> int:
        index = self._index
        stack: list[tuple[int, list[tuple[int, int]]]] = [(start, self._next(start))]
        seen = {start}
        while stack:
            state, ways = stack[-1]
            pending = [after for _, after in ways if after not in index and after not in seen]
            if pending:
                if len(index) + len(seen) >= MOST_ROWS:
                    return NOWHERE
                after = pending[0]
                seen.add(after)
                stack.append((after, self._next(after)))
                continue
            index[state] = len(self.moves)
            self.moves.append(tuple((piece, index[after]) for piece, after in ways))
            stack.pop()
        return index[start]

    def _next(self, state: int) -> list[tuple[int, int]]:
        guards = self._guards
        return [(piece, after) for piece, need in self._needs if (after := state - need) & guards == guards]

    def values(self, prices: Sequence[int], known: Sequence[int] = ()) -> list[int]:
        """Return the best value of pieces that can still be cut, per row. `known`: the first rows' values."""
        found = list(known)
        for ways in self.moves[len(found) :]:
            best = 0
            for piece, after in ways:
                value = prices[piece] + found[after]
                best = max(best, value)
            found.append(best)
        return found

    def best(self, prices: Sequence[int]) -> tuple[int, ...]:
        """Return a pattern of the greatest value that the whole can be cut into: how many of each piece."""
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
        return self.values([int(one == piece) for one in range(self.pieces)])[self.full]


def _within(need: Vector, full: Vector) -> bool:
    return all(amount <= there for amount, there in zip(need, full, strict=True))
