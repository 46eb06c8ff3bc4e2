"""How short the devices are that only some claims can use.

In: how nodes stand, one touched node at a time. Out: what it costs now to take a device that others need and the claim
does not. Sets of devices are what claims' selectors accept. For each set, slack is the free devices in it less what
those who can go nowhere else will take of what is left, in standard deviations of that demand.
"""

from collections.abc import Iterable, Mapping
from math import exp, log1p, sqrt
from typing import NamedTuple, Protocol
from weakref import WeakSet

from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.markets import Markets
from apportion.allocator.pricing.prices import DemandPrices
from apportion.allocator.rules.query import Alternative

EASE = 6.0
"""Slack, in standard deviations, up from which a set costs next to nothing."""


class ClusterState(Protocol):
    """What the supply must know of the state."""

    def since(self, cursor: int) -> tuple[int, Mapping[str, None] | None]:
        """Return the end of the log, and the nodes touched after the cursor (None: too long ago, look at all)."""
        ...

    def names(self) -> Mapping[str, object]:
        """Return every node."""
        ...

    def view(self, name: str) -> NodeView:
        """Return a node's view as things stand."""
        ...


class Captive(NamedTuple):
    """The demand that can go nowhere but into one set, while its market fills."""

    part: float
    """Part of what the market sells."""
    spread: float
    """Variance of what that comes to, per device that is left in the market."""
    usual: float
    """Devices that one claim takes in the market."""


class Scarcity:
    """Free devices by set, and the tolls that follow from them."""

    def __init__(self, prices: DemandPrices) -> None:
        self._prices = prices
        self._size = len(prices.sets)
        self._cursor = -1
        self._free: list[int] = []
        """Per set, then per market under the number of its first set."""
        self._known: dict[str, tuple[int, ...]] = {}
        """The same of each node."""
        self._node_classes: WeakSet[NodeClass] = WeakSet()
        """Kinds whose sets were compared; gone with their last node."""
        self._node_class: NodeClass | None = None
        """The last of them: most nodes are of its kind."""
        self._markets = Markets(self._size)
        self.version = 0
        """Grows when what is known of the sets changes, so that answers given before are void."""
        self._latest = prices.mix
        self._captives: list[Captive] = []
        """Per set, made anew with the demand and with the sets."""
        self._costs: dict[int, int] = {}

    @property
    def contested(self) -> bool:
        """Whether some set shares devices with another without lying inside it: only then does anything cost a toll."""
        return self._markets.exists

    def catch_up(self, cluster: ClusterState, node_states: NodeStates, latest: DemandMix) -> None:
        """Look at the nodes touched since. `latest`: the demand as it is now; prices of room may be of an older one."""
        if latest is not self._latest:
            self._latest = latest
            self._captives.clear()
            self._costs.clear()
        self._cursor, touched = cluster.since(self._cursor)
        names = cluster.names()
        if touched is None:
            views = [cluster.view(node_state.first()) for node_state in node_states.all()]
        else:
            views = [cluster.view(name) for name in touched if name in names]
        version = self.version
        # Which devices make a market must be known before they are counted.
        for view in views:
            self._compare(view)
        if touched is None or self.version != version:
            self._count(cluster, node_states)
            return
        if self.contested:
            for name in touched:
                if name in names:
                    self._enter(name, self._row(cluster.view(name)))
                elif name in self._known:
                    self._enter(name, ())
                    del self._known[name]

    def _compare(self, view: NodeView) -> None:
        """Learn how the sets lie to each other on a kind of node not seen before."""
        node_class = view.node_class
        if node_class is self._node_class or node_class is None:
            return
        self._node_class = node_class
        if node_class not in self._node_classes:
            self._node_classes.add(node_class)
            if self._markets.learn(self._prices.of(view).reaches):
                self.version += 1
                self._captives.clear()

    def _count(self, cluster: ClusterState, node_states: NodeStates) -> None:
        self._known.clear()
        self._free = [0] * (2 * self._size)
        self._costs.clear()
        if not self.contested:
            return
        for node_state in node_states.all():
            row = self._row(cluster.view(node_state.first()))
            if row:
                self._known.update(dict.fromkeys(node_state.nodes, row))
                for one, count in enumerate(row):
                    self._free[one] += count * len(node_state.nodes)

    def _row(self, view: NodeView) -> tuple[int, ...]:
        reaches = self._prices.of(view).reaches
        if not any(reaches):
            return ()
        free = view.base & ~view.exclusive
        unions = [0] * self._size
        for first, mask in zip(self._markets.markets, reaches, strict=True):
            unions[first] |= mask
        return tuple([(mask & free).bit_count() for mask in (*reaches, *unions)])

    def _enter(self, name: str, row: tuple[int, ...]) -> None:
        former = self._known.get(name, ())
        if row == former:
            return
        self._known[name] = row
        self._costs.clear()
        for one, count in enumerate(former):
            self._free[one] -= count
        for one, count in enumerate(row):
            self._free[one] += count

    def reach(self, alternative: Alternative) -> int:
        """Return how many free devices a request chooses from; 0 where no two requests are rivals, or it is not known."""
        one = self._prices.set_of(alternative)
        return self._free[one] if one is not None and self.contested else 0

    def contended(self, alternative: int | None, reached: Iterable[int]) -> tuple[int, ...]:
        """Return the sets that lose devices to a claim that could go elsewhere. `reached`: the sets that it takes from."""
        if alternative is None or not self.contested:
            return ()
        markets = self._markets
        return tuple(
            one
            for one in reached
            if not markets.inside(alternative, one) and not any(markets.same(one, two) for two in range(one))
        )

    def contention_cost(self, contention: tuple[int, ...]) -> int:
        """Return what the harm costs now, in the unit of worth. `harm`: sets, once per device that they lose."""
        if not contention:
            return 0
        costs = self._costs
        total = 0
        for one in contention:
            if one not in costs:
                costs[one] = self._price(one)
            total += costs[one]
        return total

    def _price(self, one: int) -> int:
        if not self._captives:
            self._captives = self._look()
        part, spread, usual = self._captives[one]
        left = self._free[self._size + self._markets.markets[one]]
        slack = (self._free[one] - part * left) / sqrt(spread * left + 1)
        return round(UNIT * log1p(exp(min(EASE - slack, 50.0))) / usual)

    def _look(self) -> list[Captive]:
        size = range(self._size)
        demand = [0] * self._size
        squares = [0] * self._size
        claims = [0] * self._size
        for entry in self._latest:
            one = self._prices.set_of(entry.alternative)
            if one is not None:
                claims[one] += entry.weight
                demand[one] += entry.weight * entry.count
                squares[one] += entry.weight * entry.count * entry.count
        markets = self._markets.markets
        found: list[Captive] = []
        for one in size:
            market = [other for other in size if markets[other] == markets[one]]
            # Nobody may want any of it of late.
            total = sum(demand[other] for other in market) or 1
            part = sum(demand[other] for other in market if self._markets.inside(other, one)) / total
            spread = sum(squares[other] for other in market) / total
            usual = total / (sum(claims[other] for other in market) or 1)
            found.append(Captive(part, spread * part * (1 - part), usual))
        return found
