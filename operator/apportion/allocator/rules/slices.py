"""Which devices of a slice a selector accepts, asked once per slice version.

In: a slice, a CEL text. Out: a bit per device that matches, and an error per device on which the text fails.
"""

from collections.abc import Callable, Mapping

from apportion.allocator.bits import bits
from apportion.allocator.rules.selectors import SelectorResults
from apportion.allocator.rules.slicetemplates import SliceTemplate
from apportion.dra.slice import Slice
from apportion.dra.taint import Taint
from apportion.errors import SelectorError

MOST_TEXTS = 2048
"""Texts kept per slice; users may write any number of them."""


class SliceView:
    """A slice in one version, with what was found out about its devices."""

    __slots__ = ("_asked", "pattern", "slice")

    def __init__(self, piece: Slice, pattern: SliceTemplate) -> None:
        self.slice = piece
        self.pattern = pattern
        self._asked: dict[str, tuple[int, int, dict[int, SelectorError]]] = {}

    def matches(
        self, text: str, wanted: int, answers: Callable[[str], SelectorResults]
    ) -> tuple[int, dict[int, SelectorError]]:
        """Return the wanted devices that match, and the wanted devices on which the text fails."""
        asked, matching, errors = self._asked.get(text) or (0, 0, {})
        fresh = wanted & ~asked
        if fresh:
            if len(self._asked) >= MOST_TEXTS:
                self._asked.clear()
            ask = answers(text).ask
            told: dict[tuple[int, int], bool | SelectorError] = {}
            for index in bits(fresh):
                device = self.slice.devices[index]
                # Readers share equal parts, so most devices of a slice need not be asked.
                parts = id(device.attributes), id(device.capacity)
                if parts in told and not device.shareable and not device.unsupported:
                    answer = told[parts]
                else:
                    answer = ask(device)
                    if not device.shareable and not device.unsupported:
                        told[parts] = answer
                if answer is True:
                    matching |= 1 << index
                elif answer is not False:
                    errors[index] = answer
            self._asked[text] = (asked | fresh, matching, errors)
        failed = {index: error for index, error in errors.items() if wanted >> index & 1} if errors else {}
        return matching & wanted, failed


def blocking_taints(piece: Slice, more: Mapping[int, tuple[Taint, ...]]) -> dict[int, tuple[Taint, ...]]:
    """Return the taints that keep new users away, by the device's position; `more` come from rules."""
    found = {}
    for index, device in enumerate(piece.devices):
        if device.taints or index in more:
            taints = tuple(taint for taint in (*device.taints, *more.get(index, ())) if taint.blocks)
            if taints:
                found[index] = taints
    return found
