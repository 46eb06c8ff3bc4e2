"""SliceView: one version of a slice with the selector results of its devices; SliceTemplate: its layout without names.

In: a slice, a CEL text. Out: a bit per device that matches, and errors with the devices on which the selector fails.
"""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.memo import Memo, keep
from apportion.allocator.rules.negatives import negative
from apportion.allocator.rules.selectors import Measured, SelectorResults
from apportion.dra.slice import Slice
from apportion.dra.taint import Taint
from apportion.errors import SelectorError

MOST_TEMPLATES = 16_384
"""Slice templates kept; a slice view keeps a reference to its own."""

MOST_TEXTS = 2048
"""Selector texts kept per slice, as long as there are few slices."""
MOST_KEPT = 1 << 20
"""The same of all slices together: one takes a quarter of a kibibyte, and a large cluster has thousands of slices."""
LEAST_TEXTS = 256
"""What a slice keeps however many slices there are."""

Failures: TypeAlias = dict[SelectorError, int]
"""By error a bit per device on which a selector fails with it. One selector may fail on all devices of a cluster, with the same few errors."""


class SliceTemplate:
    """The layout of a slice: counters, flags and taints of its devices, without names and attributes."""

    __slots__ = (
        "binding",
        "blocking",
        "closed",
        "consumes",
        "consuming",
        "limited",
        "shareable",
        "unsupported",
    )

    def __init__(
        self, piece: Slice, flags: tuple[int, ...], blocking: Mapping[int, tuple[Taint, ...]]
    ) -> None:
        self.consumes = tuple([device.consumes for device in piece.devices])
        self.shareable, self.limited, self.binding, self.consuming, self.unsupported, self.closed = flags
        """Device masks: `allowMultipleAllocations`; capacity to be checked even for requests that name none; binding
        conditions; `consumesCounters`; attributes of an unknown type; a negative amount, so that it is not allocated."""
        self.blocking = blocking
        """NoSchedule and NoExecute taints, by the device's position."""


class SliceTemplates:
    """One template for all slices with equal layout."""

    def __init__(self) -> None:
        self._kept: Memo[object, SliceTemplate] = Memo(MOST_TEMPLATES)

    def of(self, piece: Slice, blocking: Mapping[int, tuple[Taint, ...]]) -> SliceTemplate:
        """Return the template of this slice."""
        devices = piece.devices
        shareable = limited = binding = consuming = unsupported = closed = 0
        policies: dict[int, bool] = {}
        negatives: dict[tuple[int, int], bool] = {}
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
            amounts = id(capacity), id(device.consumes)
            below = negatives.get(amounts)
            if below is None:
                below = negatives[amounts] = bool(negative(device))
            if below:
                closed |= 1 << index
        flags = shareable, limited, binding, consuming, unsupported, closed
        # The slice reader shares equal `consumesCounters`. The template keeps them, so that their ids are not reused.
        key = tuple([id(device.consumes) for device in devices]), flags, tuple(blocking.items())
        found = self._kept.get(key)
        if found is None:
            found = self._kept[key] = SliceTemplate(piece, flags, blocking)
        return found

    def __len__(self) -> int:
        return len(self._kept)


class SliceView:
    """One version of a slice, with the selector results of its devices."""

    __slots__ = ("_peers", "_results", "slice", "template")

    def __init__(self, piece: Slice, template: SliceTemplate, peers: Callable[[], int]) -> None:
        """`peers` says how many slices there are."""
        self._peers = peers
        self.slice = piece
        self.template = template
        self._results: dict[str, tuple[int, int, Failures]] = {}

    @property
    def size(self) -> int:
        """How many selector texts are kept."""
        return len(self._results)

    @property
    def _most(self) -> int:
        return max(LEAST_TEXTS, min(MOST_TEXTS, MOST_KEPT // max(1, self._peers())))

    def learn(self, text: str, index: int, measured: Measured) -> None:
        """Keep a result that was measured."""
        result = measured[0]
        evaluated, matching, errors = self._results.get(text) or (0, 0, {})
        if evaluated >> index & 1:
            return
        if result is True:
            matching |= 1 << index
        elif result is not False:
            errors = {**errors, result: errors.get(result, 0) | 1 << index}
        keep(self._results, text, (evaluated | 1 << index, matching, errors), self._most)

    def matches(
        self, text: str, mask: int, selectors: Callable[[str], SelectorResults]
    ) -> tuple[int, Failures]:
        """Return the devices of the mask that match, and those on which the selector fails."""
        evaluated, matching, errors = self._results.get(text) or (0, 0, {})
        fresh = mask & ~evaluated
        if fresh:
            evaluate = selectors(text).evaluate
            results: dict[tuple[int, int], bool | SelectorError] = {}
            for index in bits(fresh):
                device = self.slice.devices[index]
                # The slice reader shares equal attributes and capacities, so most devices need no evaluation.
                ids = id(device.attributes), id(device.capacity)
                if ids in results and not device.shareable and not device.unsupported:
                    result = results[ids]
                else:
                    result = evaluate(device)
                    if not device.shareable and not device.unsupported:
                        results[ids] = result
                if result is True:
                    matching |= 1 << index
                elif result is not False:
                    errors[result] = errors.get(result, 0) | 1 << index
            keep(self._results, text, (evaluated | fresh, matching, errors), self._most)
        failed = {error: found & mask for error, found in errors.items() if found & mask} if errors else {}
        return matching & mask, failed


def blocking_taints(piece: Slice, more: Mapping[int, tuple[Taint, ...]]) -> dict[int, tuple[Taint, ...]]:
    """Return the NoSchedule and NoExecute taints by the device's position; `more`: those of DeviceTaintRules."""
    found = {}
    for index, device in enumerate(piece.devices):
        if device.taints or index in more:
            taints = tuple(taint for taint in (*device.taints, *more.get(index, ())) if taint.blocks)
            if taints:
                found[index] = taints
    return found
