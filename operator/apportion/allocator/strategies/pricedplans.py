"""PricedPlans: plans of queries for shares under one demand mix, one for all nodes with equal prices.

In: a node's view, a query. Out: by alternative the devices with what a share of each loses, kept by what is in use of it.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from apportion.allocator.memo import Memo, keep
from apportion.allocator.node.nodeclass import ClassGroup, NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.prices import DemandPrices, NodePrices
from apportion.allocator.pricing.shareprices import MOST_KEPT, SharePrices
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.outcome import Outcome
from apportion.allocator.strategies.shareplan import AlternativeShares, SharePlan, share_plan

MOST_ESTIMATES = 4096
"""Estimates kept per priced plan."""

FEW_CLASSES = 8
"""Up to so many node classes in a group, looking for an outcome that they share costs more than it saves."""

Loss: TypeAlias = tuple[int, int]
"""Value lost, and value before."""


class DeviceShare(NamedTuple):
    """What an alternative consumes of one device."""

    device: int
    own: Mapping[str, int]
    """Amounts in 10^-9 by capacity."""
    most: Mapping[str, int]
    """By capacity the amount that others may use beside it, in 10^-9."""
    losses: dict[object, Loss | None]
    """By what others use; None where the share does not fit."""
    kind: int
    """Of two devices of one kind that are used alike, it does not matter which one is taken, but for their places on the node."""


class PricedPlan:
    """A plan on nodes with equal prices. Compared by identity."""

    __slots__ = ("alternatives", "estimates", "plan")

    def __init__(self, plan: SharePlan, alternatives: tuple[tuple[DeviceShare, ...], ...]) -> None:
        self.plan = plan
        self.alternatives = alternatives
        self.estimates: Memo[object, Outcome | None] = Memo(MOST_ESTIMATES)
        """By holdings; None where the choice among devices may affect the score."""


class PlansByGroup(NamedTuple):
    """The priced plans of one query."""

    per_node: frozenset[str]
    """Attributes whose values differ from node to node, when `names` was computed."""
    names: tuple[str, ...] | None
    """What the query and the mix read; None: it may differ from node to node, or be any."""
    plans: dict[ClassGroup, PricedPlan]
    """By group over these attributes."""


class PricedPlans:
    """The plans under one demand mix."""

    def __init__(self, prices: DemandPrices, share_prices: SharePrices) -> None:
        self._prices = prices
        self._share_prices = share_prices
        self._priced: Memo[tuple[NodePrices, SharePlan], PricedPlan] = Memo(MOST_KEPT)
        self._grouped: Memo[Query, PlansByGroup] = Memo(MOST_KEPT)
        self._losses: Memo[object, dict[object, Loss | None]] = Memo(MOST_KEPT)
        """By price row and amounts: shared by devices of several classes."""

    def of(self, view: NodeView, query: Query, selectors: SelectorLookup) -> PricedPlan | None:
        """Return the plan of a node; None where only the search can tell."""
        plan = share_plan(view, query, selectors)
        return self._price(view, plan) if plan is not None else None

    def of_group(
        self, view: NodeView, query: Query, selectors: SelectorLookup
    ) -> tuple[PricedPlan | None, bool]:
        """Return the plan of a node, and whether so many classes have it that their outcomes are shared. Hot path."""
        node_class = view.node_class
        if node_class is None:
            return None, False
        grouped = self._grouped.get(query)
        if grouped is None or grouped.per_node is not node_class.per_node:
            grouped = self._grouped[query] = self._group(node_class, query, selectors)
        names, plans = grouped.names, grouped.plans
        group = node_class.group_over(names) if names is not None else None
        if group is None:
            return self.of(view, query, selectors), False
        found = plans.get(group)
        if found is None:
            found = self.of(view, query, selectors)
            if found is not None:
                keep(plans, group, found, MOST_KEPT)
        return found, group.classes > FEW_CLASSES

    def _group(self, node_class: NodeClass, query: Query, selectors: SelectorLookup) -> PlansByGroup:
        """Return an empty table for the plans of a query."""
        reads = [selectors(text).reads for text in query.texts]
        names = self._prices.attributes_read(node_class)
        if names is not None and node_class.covers(reads):
            names = tuple(sorted({*names, *[name for read in reads for _, name in read or ()]}))
        else:
            names = None
        return PlansByGroup(node_class.per_node, names, {})

    def _price(self, view: NodeView, plan: SharePlan) -> PricedPlan:
        node_prices = self._prices.of(view)
        key = node_prices, plan
        found = self._priced.get(key)
        if found is None:
            kinds: dict[object, int] = {}
            alternatives = tuple(
                [self._price_alternative(view, node_prices, each, kinds) for each in plan.alternatives]
            )
            found = self._priced[key] = PricedPlan(plan, alternatives)
        return found

    def _price_alternative(
        self,
        view: NodeView,
        node_prices: NodePrices,
        alternative: AlternativeShares,
        kinds: dict[object, int],
    ) -> tuple[DeviceShare, ...]:
        shares = []
        for index, amounts in alternative.devices:
            key = self._share_prices.row(view, index), amounts.key
            losses = self._losses.get(key)
            if losses is None:
                losses = self._losses[key] = {}
            sets = tuple([mask >> index & 1 for mask in node_prices.set_masks])
            rooms = tuple(
                [
                    (number, *most.items())
                    for number, room in enumerate(node_prices.rooms)
                    for device, most in room.devices
                    if device == index
                ]
            )
            kind = kinds.setdefault((key, sets, rooms), len(kinds))
            shares.append(DeviceShare(index, amounts.own, amounts.most, losses, kind))
        return tuple(shares)
