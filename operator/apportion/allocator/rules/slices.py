"""Which devices of a slice a selector accepts, asked once per slice version.

In: a slice, a CEL text. Out: a bit per device that matches, and an error per device on which the text fails.
"""

from collections.abc import Callable, Mapping

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo
from apportion.allocator.rules.selectors import SelectorResults
from apportion.dra.slice import Slice
from apportion.dra.taint import Taint
from apportion.errors import SelectorError

MOST_TEMPLATES = 16_384
"""SliceTemplates that are remembered; slices keep the one that they have."""

MOST_TEXTS = 2048
"""Texts kept per slice; users may write any number of them."""


class SliceTemplate:
    """What decides how the devices of a slice are arranged on a node."""

    __slots__ = ("binding", "blocking", "consuming", "limited", "parts", "shareable", "unsupported")

    def __init__(
        self, piece: Slice, flags: tuple[int, ...], blocking: Mapping[int, tuple[Taint, ...]]
    ) -> None:
        self.parts = tuple([device.consumes for device in piece.devices])
        self.shareable, self.limited, self.binding, self.consuming, self.unsupported = flags
        """Bits of devices: that several may use; whose capacity decides even when a request names none; with binding
        conditions; that draw from counters; with attributes of no known type."""
        self.blocking = blocking
        """Taints that keep new users away, by the device's position."""


class SliceTemplates:
    """The templates seen so far."""

    def __init__(self) -> None:
        self._kept: Memo[object, SliceTemplate] = Memo(MOST_TEMPLATES)

    def of(self, piece: Slice, blocking: Mapping[int, tuple[Taint, ...]]) -> SliceTemplate:
        """Return the one object for this slice."""
        devices = piece.devices
        shareable = limited = binding = consuming = unsupported = 0
        policies: dict[int, bool] = {}
        for index, device in enumerate(devices):
            capacity = device.capacity
            policy = policies.get(id(capacity))
            if policy is None:
                policy = policies[id(capacity)] = any(entry.policy for entry in capacity.values())
            if device.shareable:
                shareable |= 1 << index
                limited |= 1 << index
            elif policy:
                limited |= 1 << index
            if device.binding_conditions:
                binding |= 1 << index
            if device.consumes:
                consuming |= 1 << index
            if device.unsupported:
                unsupported |= 1 << index
        flags = shareable, limited, binding, consuming, unsupported
        # Readers share equal parts of devices. The template keeps them, so that their ids stay their own.
        key = tuple([id(device.consumes) for device in devices]), flags, tuple(blocking.items())
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = SliceTemplate(piece, flags, blocking)
        return found

    def __len__(self) -> int:
        return len(self._kept)


class SliceView:
    """A slice in one version, with what was found out about its devices."""

    __slots__ = ("_asked", "slice", "template")

    def __init__(self, piece: Slice, template: SliceTemplate) -> None:
        self.slice = piece
        self.template = template
        self._asked: Memo[str, tuple[int, int, dict[int, SelectorError]]] = Memo(MOST_TEXTS)

    def matches(
        self, text: str, wanted: int, selectors: Callable[[str], SelectorResults]
    ) -> tuple[int, dict[int, SelectorError]]:
        """Return the wanted devices that match, and the wanted devices on which the text fails."""
        asked, matching, errors = self._asked.get(text) or (0, 0, {})
        fresh = wanted & ~asked
        if fresh:
            ask = selectors(text).ask
            as_broken_input: dict[tuple[int, int], bool | SelectorError] = {}
            for index in bits(fresh):
                device = self.slice.devices[index]
                # Readers share equal parts, so most devices of a slice need not be asked.
                parts = id(device.attributes), id(device.capacity)
                if parts in as_broken_input and not device.shareable and not device.unsupported:
                    answer = as_broken_input[parts]
                else:
                    answer = ask(device)
                    if not device.shareable and not device.unsupported:
                        as_broken_input[parts] = answer
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
