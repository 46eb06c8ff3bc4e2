"""A mix: what claims ask for, and how often each.

In: what claims meant, or the profiles of an AllocationPolicy. Out: entries that can say which devices of a node would
serve them. Two entries with equal devices are merged where they are priced, not here.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.rules.query import Alternative, Query

if TYPE_CHECKING:
    from apportion.allocator.node.nodeview import NodeView
    from apportion.allocator.rules.selectors import SelectorLookup

PROFILE_ATTRIBUTES = ("profile", "template")
"""Attributes, in the driver's own domain, that name a MIG profile or a vNPU template."""


@dataclass(frozen=True, slots=True)
class DemandEntry:
    """One thing that is asked for."""

    weight: int
    """How often, relative to the mix."""
    alternative: Alternative | None = None
    profile: str = ""
    """Instead of a request: the name of a profile or template."""

    @property
    def count(self) -> int:
        """Return how many devices one claim takes."""
        return 1 if self.alternative is None else self.alternative.count

    def mask(self, view: "NodeView", selectors: "SelectorLookup") -> int:
        """Return the devices of a node that would serve it; none where only each node can tell."""
        if self.alternative is None:
            return self._named(view)
        node_class = view.node_class
        texts = (*self.alternative.class_selectors, *self.alternative.selectors)
        if node_class is None or not node_class.covers(selectors(text).reads for text in texts):
            return 0
        return view.selected(self.alternative, selectors)[0] & view.tolerating(self.alternative.tolerations)

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


def entries(query: Query, weight: int) -> DemandMix:
    """Return what claims of one meaning ask for: the alternative that they like best of every request."""
    alternatives = (slot.alternatives[0] for slot in query.slots)
    return tuple(
        DemandEntry(weight, alternative)
        for alternative in alternatives
        if not alternative.everything and not alternative.admin
    )
