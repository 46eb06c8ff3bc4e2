"""Selection: which devices of a node the selectors of a class and a request accept, together.

In: the slices of a node, the texts. Out: bits of devices, and errors by device. A node's view keeps the result with its node
class where all nodes of the class get the same one.
"""

from collections.abc import Sequence
from typing import TypeAlias

from apportion.allocator.node.template import NodeTemplate
from apportion.allocator.rules.nodeerror import ErrorCause
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.rules.slices import SliceView

SelectorTexts: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""The class's selectors, the request's."""
Selected: TypeAlias = tuple[int, dict[int, ErrorCause]]
"""Devices that pass all selectors, and those on which one fails."""


def select(
    slices: Sequence[SliceView], template: NodeTemplate, texts: SelectorTexts, selectors: SelectorLookup
) -> Selected:
    """Evaluate the selectors on every device."""
    of_class, own = texts
    mask = 0
    errors: dict[int, ErrorCause] = {}
    for piece, (_, offset, visible) in zip(slices, template.slices, strict=True):
        left = visible
        for number, text in enumerate((*of_class, *own)):
            if not left:
                break
            left, failed = piece.matches(text, left, selectors)
            for position, error in failed.items():
                device = piece.slice.devices[position].id
                if number < len(of_class):
                    cause = ErrorCause("class", f"selector #{number} on device {device}: {error}")
                else:
                    nth = number - len(of_class)
                    cause = ErrorCause(
                        "claim", f"selector #{nth} on device {device}: {error}", f"selectors[{nth}]"
                    )
                errors[offset + position] = cause
        mask |= left << offset
    return mask, errors
