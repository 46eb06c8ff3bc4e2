"""Which cells of a node may be swapped without changing anything, while devices are being chosen.

In: what is in every cell now. Out: a colour per cell; cells of one colour are interchangeable. Colours are refined by
the colours around (Weisfeiler and Leman), which tells apart whatever nested groups of devices can tell apart.
"""

from operator import add

from apportion.allocator.closeness.distances import NodeDistances
from apportion.allocator.memo import Memo

MOST_KNOWN = 4096
_WIDE = 1 << 32
"""More than there are colours: an edge and a colour make one number."""


class CellColouring:
    """Colours, remembered by what the cells hold."""

    def __init__(self, distances: NodeDistances, cells: tuple[int, ...]) -> None:
        """`cells`: the ones that matter."""
        numbers: dict[object, int] = {}
        self._edges = [
            [numbers.setdefault(distances.edges[one][other], len(numbers)) * _WIDE for other in cells]
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
        # The last round, which tells nothing more apart, writes down how the cells lie: two states of a search with the
        # same colours are then alike as a whole.
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
