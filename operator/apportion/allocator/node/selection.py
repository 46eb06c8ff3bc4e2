"""Which devices of a node the selectors of a class and a request accept, together.

In: a node's view, the texts. Out: bits of devices, and errors by device. Kept with the node's kind where all nodes of
the kind answer alike, else with the node.
"""

from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.rules.nodeerror import ErrorCause

if TYPE_CHECKING:
    from apportion.allocator.node.nodeview import NodeView, SelectorLookup

SelectorTexts: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The class's selectors, the request's."""
Selected: TypeAlias = tuple[int, dict[int, ErrorCause]]

MOST_KEPT = 256
"""Selections that a node keeps for itself."""


class LocalSelections:
    """What one node answers, as far as its kind cannot tell."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[SelectorTexts, Selected] = {}

    def of(self, texts: SelectorTexts, view: "NodeView", answers: "SelectorLookup") -> Selected:
        """Return the devices that pass all selectors, and those on which one fails."""
        found = self._kept.get(texts)
        if found is not None:
            return found
        kind = view.kind
        reads = [answers(text).reads for row in texts for text in row]
        if kind is not None and kind.covers(reads):
            names = sorted({name for read in reads for _, name in read or ()})
            found = kind.table(("selected", texts), names, lambda: select(view, texts, answers))
            # Errors name devices, so they are kept apart.
            if not found[1]:
                kind.keep(texts, found)
                return found
        found = select(view, texts, answers)
        if len(self._kept) >= MOST_KEPT:
            self._kept.clear()
        self._kept[texts] = found
        return found


def select(view: "NodeView", texts: SelectorTexts, answers: "SelectorLookup") -> Selected:
    """Ask every device."""
    of_class, own = texts
    mask = 0
    errors: dict[int, ErrorCause] = {}
    for piece, (_, offset, visible) in zip(view.pieces, view.anatomy.cuts, strict=True):
        left = visible
        for number, text in enumerate((*of_class, *own)):
            if not left:
                break
            left, failed = piece.matches(text, left, answers)
            for position, error in failed.items():
                device = piece.slice.devices[position].id
                if number < len(of_class):
                    flaw = ErrorCause("class", f"selector #{number} on device {device}: {error}")
                else:
                    nth = number - len(of_class)
                    flaw = ErrorCause(
                        "claim", f"selector #{nth} on device {device}: {error}", f"selectors[{nth}]"
                    )
                errors[offset + position] = flaw
        mask |= left << offset
    return mask, errors
