"""Selection: the devices of a node that the selectors of a device class and a request accept.

In: the slices of a node, and selector texts. Out: a device mask, and errors by device. The view keeps the result in the
node class if it is the same for all nodes of the class.
"""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.template import NodeTemplate
from apportion.allocator.rules.query import ErrorCause
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.rules.slices import SliceView
from apportion.errors import SelectorError

SelectorTexts: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""Selectors of the device class, and of the request."""


class SelectionErrors(Mapping[int, ErrorCause]):
    """The error of each device on which a selector fails, by its position on the node.

    A text is made when it is read: one selector may fail on every device of a cluster, and no more than one of its errors is shown.
    """

    __slots__ = ("_mask", "_of_class", "_rows", "_slices")

    def __init__(self, slices: Sequence[SliceView], of_class: int, rows: Sequence["_Failed"]) -> None:
        """`of_class`: how many of the selectors are the device class's."""
        self._slices = slices
        self._of_class = of_class
        self._rows = rows
        self._mask = 0
        for row in rows:
            self._mask |= row.mask << row.offset

    def __getitem__(self, index: int) -> ErrorCause:
        for piece, offset, mask, number, error in self._rows:
            if index >= offset and mask >> (index - offset) & 1:
                device = self._slices[piece].slice.devices[index - offset].id
                if number < self._of_class:
                    return ErrorCause("class", f"selector #{number} on device {device}: {error}")
                nth = number - self._of_class
                return ErrorCause(
                    "claim", f"selector #{nth} on device {device}: {error}", f"selectors[{nth}]"
                )
        raise KeyError(index)

    def __iter__(self) -> Iterator[int]:
        return bits(self._mask)

    def __len__(self) -> int:
        return self._mask.bit_count()


class _Failed(NamedTuple):
    """Devices of one slice on which one selector fails with one error."""

    piece: int
    """Position of the slice."""
    offset: int
    """Position of its first device on the node."""
    mask: int
    number: int
    """Position of the selector, those of the class first."""
    error: SelectorError


Selected: TypeAlias = tuple[int, Mapping[int, ErrorCause]]
"""Devices that pass all selectors, and the error of each device on which one fails."""
_NO_ERRORS: Mapping[int, ErrorCause] = MappingProxyType({})


def select(
    slices: Sequence[SliceView], template: NodeTemplate, texts: SelectorTexts, selectors: SelectorLookup
) -> Selected:
    """Evaluate the selectors on every device."""
    of_class, of_request = texts
    mask = 0
    failed: list[_Failed] = []
    for position, (piece, (_, offset, visible)) in enumerate(zip(slices, template.slices, strict=True)):
        left = visible
        for number, text in enumerate((*of_class, *of_request)):
            if not left:
                break
            left, failures = piece.matches(text, left, selectors)
            for error, devices in failures.items():
                failed.append(_Failed(position, offset, devices, number, error))
        mask |= left << offset
    return mask, SelectionErrors(slices, len(of_class), tuple(failed)) if failed else _NO_ERRORS
