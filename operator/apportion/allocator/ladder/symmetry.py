"""Which cells of a node may be swapped without changing anything, while devices are being chosen.

In: what is in every cell now. Out: a colour per cell; cells of one colour are interchangeable. Colours are refined by
the colours around (Weisfeiler and Leman), which tells apart whatever nested groups of devices can tell apart.
"""

from apportion.allocator.ladder.closeness import Closeness

MOST_KNOWN = 4096


class Symmetry:
    """Colours, remembered by what the cells hold."""

    def __init__(self, closeness: Closeness, cells: tuple[int, ...]) -> None:
        """`cells`: the ones that matter."""
        self._edges = [[closeness.edges[one][other] for other in cells] for one in cells]
        self._numbers: dict[object, int] = {}
        self._known: dict[tuple[int, ...], tuple[int, ...]] = {}

    def colours(self, contents: list[object]) -> tuple[int, ...]:
        """Return the colour of every cell."""
        colours = tuple(self._number(content) for content in contents)
        found = self._known.get(colours)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[colours] = self._refined(colours)
        return found

    def _refined(self, colours: tuple[int, ...]) -> tuple[int, ...]:
        different = len(set(colours))
        while True:
            colours = tuple(
                self._number(
                    (
                        own,
                        tuple(
                            sorted(
                                (self._edges[here][there], other)
                                for there, other in enumerate(colours)
                                if there != here
                            )
                        ),
                    )
                )
                for here, own in enumerate(colours)
            )
            if len(set(colours)) == different:
                return colours
            different = len(set(colours))

    def _number(self, key: object) -> int:
        return self._numbers.setdefault(key, len(self._numbers))
