"""DemandMix: what claims ask for, and how often.

In: queries of claims, or the profiles of an AllocationPolicy. Out: entries that return the devices of a node that would
serve them. Entries that match the same devices are merged by the prices, not here.
"""

from dataclasses import dataclass
from typing import TypeAlias

from apportion.allocator.bits import bits
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Alternative, Query
from apportion.allocator.rules.selectors import SelectorLookup

PROFILE_ATTRIBUTES = ("profile", "template")
"""Attributes, in the driver's own domain, that name a MIG profile or a vNPU template."""


@dataclass(frozen=True, slots=True)
class DemandEntry:
    """One request that claims make."""

    weight: int
    """How often, relative to the other entries."""
    alternative: Alternative | None = None
    profile: str = ""
    """Instead of a request: the name of a profile or template."""

    @property
    def count(self) -> int:
        """Return how many devices one claim takes."""
        return 1 if self.alternative is None else self.alternative.count

    def mask(self, view: NodeView, selectors: SelectorLookup) -> int:
        """Return the devices of a node that would serve it; 0 where a selector reads per-node attributes."""
        if self.alternative is None:
            return self._profile_devices(view)
        node_class = view.node_class
        texts = (*self.alternative.class_selectors, *self.alternative.selectors)
        if node_class is None or not node_class.covers(selectors(text).reads for text in texts):
            return 0
        return view.selected(self.alternative, selectors)[0] & view.tolerating(self.alternative.tolerations)

    def _profile_devices(self, view: NodeView) -> int:
        mask = 0
        for index in bits(view.base):
            device = view.devices[index]
            if any(
                device.attribute(f"{device.driver}/{name}") == self.profile for name in PROFILE_ATTRIBUTES
            ):
                mask |= 1 << index
        return mask


DemandMix: TypeAlias = tuple[DemandEntry, ...]


def entries(query: Query, weight: int) -> DemandMix:
    """Return the entries of a query: the first alternative of each request, without mode All and admin access."""
    alternatives = (slot.alternatives[0] for slot in query.slots)
    return tuple(
        DemandEntry(weight, alternative)
        for alternative in alternatives
        if not alternative.everything and not alternative.admin
    )
