"""Selection: the devices of a node that the selectors of a device class and a request accept.

In: the slices of a node, and selector texts. Out: a device mask, and errors by device. The view keeps the result in the
node class if it is the same for all nodes of the class.
"""

from collections.abc import Sequence
from typing import TypeAlias

from apportion.allocator.node.template import NodeTemplate
from apportion.allocator.rules.query import ErrorCause
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.rules.slices import SliceView

SelectorTexts: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Selectors of the device class, and of the request."""
Selected: TypeAlias = tuple[int, dict[int, ErrorCause]]
"""Devices that pass all selectors, and the error of each device on which one fails."""


def select(
    slices: Sequence[SliceView], template: NodeTemplate, texts: SelectorTexts, selectors: SelectorLookup
) -> Selected:
    """Evaluate the selectors on every device."""
    of_class, of_request = texts
    mask = 0
    errors: dict[int, ErrorCause] = {}
    for piece, (_, offset, visible) in zip(slices, template.slices, strict=True):
        left = visible
        for number, text in enumerate((*of_class, *of_request)):
            if not left:
                break
            left, failed = piece.matches(text, left, selectors)
            for index, error in failed.items():
                device = piece.slice.devices[index].id
                if number < len(of_class):
                    cause = ErrorCause("class", f"selector #{number} on device {device}: {error}")
                else:
                    nth = number - len(of_class)
                    cause = ErrorCause(
                        "claim", f"selector #{nth} on device {device}: {error}", f"selectors[{nth}]"
                    )
                errors[offset + index] = cause
        mask |= left << offset
    return mask, errors
