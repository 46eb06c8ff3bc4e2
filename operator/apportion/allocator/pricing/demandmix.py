"""A mix: what claims ask for, and how often each.

In: what claims meant, or the profiles of an AllocationPolicy. Out: entries that can say which devices of a node would
serve them. Two entries with equal devices are merged where they are priced, not here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.rules.query import Alternative, Query

if TYPE_CHECKING:
    from apportion.allocator.node.nodeview import NodeView, SelectorLookup

PROFILE_ATTRIBUTES = ("profile", "template")
"""Attributes, in the driver's own domain, that name a MIG profile or a vNPU template."""


@dataclass(frozen=True, slots=True)
class DemandEntry:
    """One thing that is asked for."""

    weight: int
    """How often, relative to the mix."""
    want: Alternative | None = None
    profile: str = ""
    """Instead of a request: the name of a profile or template."""

    @property
    def count(self) -> int:
        """Return how many devices one claim takes."""
        return 1 if self.want is None else self.want.count

    def mask(self, view: "NodeView", answers: "SelectorLookup") -> int:
        """Return the devices of a node that would serve it; none where only each node can tell."""
        if self.want is None:
            return self._named(view)
        kind = view.kind
        texts = (*self.want.class_selectors, *self.want.selectors)
        if kind is None or not kind.covers(answers(text).reads for text in texts):
            return 0
        return view.selected(self.want, answers)[0] & view.tolerating(self.want.tolerations)

    def _named(self, view: "NodeView") -> int:
        found = 0
        for index in bits(view.base):
            device = view.devices[index]
            if any(
                device.attribute(f"{device.driver}/{name}") == self.profile for name in PROFILE_ATTRIBUTES
            ):
                found |= 1 << index
        return found


DemandMix: TypeAlias = tuple[DemandEntry, ...]


def entries(meaning: Query, weight: int) -> DemandMix:
    """Return what claims of one meaning ask for: the alternative that they like best of every request."""
    wants = (slot.wants[0] for slot in meaning.slots)
    return tuple(DemandEntry(weight, want) for want in wants if not want.everything and not want.admin)
