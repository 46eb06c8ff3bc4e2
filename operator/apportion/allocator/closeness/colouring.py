"""CellColouring: the cells of a node that are interchangeable during a search.

In: the content of every cell. Out: a colour per cell; cells of one colour are interchangeable. Colours are refined by the
colours of the other cells (Weisfeiler and Leman), which is exact for nested groups of devices.
"""

from operator import add

from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.memo import Memo

MOST_KNOWN = 4096
_EDGE = 1 << 32
"""Greater than any colour, so that the sum of an edge and a colour is unique."""


class CellColouring:
    """Colours by the content of the cells."""

    def __init__(self, distances: NodeDistances, cells: tuple[int, ...]) -> None:
        """`cells`: the cells with candidates."""
        numbers: dict[object, int] = {}
        self._edges = [
            [numbers.setdefault(distances.edges[one][other], len(numbers)) * _EDGE for other in cells]
            for one in cells
        ]
        self._numbers: dict[object, int] = {}
        self._known: Memo[tuple[int, ...], tuple[int, ...]] = Memo(MOST_KNOWN)

    def colours(self, contents: list[object]) -> tuple[int, ...]:
        """Return the colour of every cell."""
        colours = tuple(self._number(content) for content in contents)
        found = self._known.get(colours)
        if found is None:
            found = self._known[colours] = self._refined(colours)
        return found

    def _refined(self, colours: tuple[int, ...]) -> tuple[int, ...]:
        different = 0
        # The last round separates no more cells, but its colours contain the edges: two search states with equal colours
        # are equivalent as a whole.
        while True:
            former, different = different, len(set(colours))
            colours = tuple(
                self._number((own, tuple(sorted(map(add, self._edges[here], colours)))))
                for here, own in enumerate(colours)
            )
            if former == different == len(set(colours)) or different == len(colours):
                return colours

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
