"""Scarcity: opportunity cost of device sets: what taking a device costs claims that can use no other.

In: changed nodes, the recent demand. Out: the present cost of taking a device of a set that other claims depend on. A set
holds the devices that a request's selectors accept. Its slack is the number of free devices in it less the share of its
market's free devices that requests confined to the set will take, in standard deviations of that demand.
"""

from collections.abc import Iterable
from itertools import repeat
from math import exp, log1p, sqrt
from typing import Protocol
from weakref import WeakSet

from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.facts.host import HostResources
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeclass import NodeClass
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.captives import Captive, captives
from apportion.allocator.pricing.cutprices import UNIT
from apportion.allocator.pricing.demandhistory import TypicalHostDemand
from apportion.allocator.pricing.demandmix import DemandMix
from apportion.allocator.pricing.freeshares import FreeSharesOfNodes
from apportion.allocator.pricing.hostplaces import HostedCluster, HostPlaces
from apportion.allocator.pricing.markets import Markets
from apportion.allocator.pricing.prices import DemandPrices
from apportion.allocator.rules.query import Alternative
from apportion.allocator.search.outcome import Contention

PLACE = 0.1
"""Cost, in whole devices, of a place for several shared devices where as many are left as claims for one are expected."""

EASE = 6.0
"""Slack, in standard deviations, above which a set costs almost nothing."""

MOST_SPLITS = 1024
"""Contentions kept with their sets and places apart."""


class ClusterState(HostedCluster, Protocol):
    """The members of the state that scarcity reads."""


class Scarcity:
    """Free devices by set, and the costs that follow from them."""

    def __init__(self, prices: DemandPrices) -> None:
        self._prices = prices
        self._size = len(prices.sets)
        self._cursor = -1
        self._free: list[int] = []
        """Per set, per market at the number of its first set, per request for several shared devices; last all devices to share."""
        self._by_node: dict[str, tuple[int, ...]] = {}
        """The same counts of each node."""
        self._node_classes: WeakSet[NodeClass] = WeakSet()
        """Classes whose sets were compared; weak, so that a class is freed with its last node."""
        self._node_class: NodeClass | None = None
        """The class compared last: most nodes have the same."""
        self._markets = Markets(self._size)
        self.version = 0
        """Grows when relations between sets change; outcomes of earlier versions are void."""
        self._latest = prices.mix
        self._several = len(prices.several)
        self.has_places = False
        """Whether some class has devices to share that a request takes several of."""
        self._captives: list[Captive] = []
        """Per set; computed for the latest demand and relations between sets."""
        self._expected: list[float] = []
        """Claims expected per request for several shared devices."""
        self._costs: dict[int, int] = {}
        self._splits: Memo[Contention, tuple[Contention, Contention]] = Memo(MOST_SPLITS)
        self.free_shares = FreeSharesOfNodes(prices)
        """What shares leave of nodes."""
        self.host_places = HostPlaces(prices, self.free_shares)
        """Places with the cpu and memory that pods beside them request."""

    @property
    def contested(self) -> bool:
        """Whether some set shares devices with another without lying inside it, or places are counted; else nothing has a cost."""
        return self._markets.exists or self.has_places

    def catch_up(self, cluster: ClusterState, node_states: NodeStates, latest: DemandMix) -> None:
        """Read the nodes that changed. `latest`: the recent demand, which may be newer than that of the prices."""
        if latest is not self._latest:
            self._latest = latest
            self._captives.clear()
            self._expected.clear()
            self._costs.clear()
        self._cursor, changed = cluster.since(self._cursor)
        names = cluster.names()
        if changed is None:
            views = [cluster.view(node_state.first()) for node_state in node_states.all()]
        else:
            views = [cluster.view(name) for name in changed if name in names]
        version = self.version
        # The markets must be known before their devices are counted.
        for view in views:
            self._compare(view)
        if changed is None or self.version != version:
            self._recount(cluster, node_states)
            return
        if self.contested:
            for name in changed:
                if name in names:
                    self._put(name, self._counts(cluster.view(name)))
                elif name in self._by_node:
                    self._put(name, ())
                    del self._by_node[name]

    def catch_up_places(self, cluster: ClusterState, typical: TypicalHostDemand) -> None:
        """Count places with the cpu and memory of nodes, where there are places at all; after `catch_up`."""
        self.host_places.follow(cluster, typical)
        # Every change of a node may change the places left.
        self._costs.clear()

    def _compare(self, view: NodeView) -> None:
        """Learn relations between sets from the first node of a class."""
        node_class = view.node_class
        if node_class is self._node_class or node_class is None:
            return
        self._node_class = node_class
        if node_class not in self._node_classes:
            self._node_classes.add(node_class)
            rooms, set_masks = self._prices.of(view).rooms, self._prices.of(view).set_masks
            if self._markets.learn(set_masks) or (rooms and not self.has_places):
                self.has_places |= bool(rooms)
                self.version += 1
                self._captives.clear()

    def _recount(self, cluster: ClusterState, node_states: NodeStates) -> None:
        self._by_node.clear()
        self._free = [0] * (2 * self._size + self._several + 1)
        self._costs.clear()
        self._expected.clear()
        if not self.contested:
            return
        same: dict[object, tuple[int, ...]] = {}
        for node_state in node_states.all():
            view = cluster.view(node_state.first())
            # Where nearly every node is a class of its own, most have equal prices and holdings all the same.
            key = self._prices.of(view), node_state.holdings
            if key not in same:
                same[key] = self._counts(view)
            counts = same[key]
            if counts:
                self._by_node.update(dict.fromkeys(node_state.nodes, counts))
                for number, count in enumerate(counts):
                    self._free[number] += count * len(node_state.nodes)

    def _counts(self, view: NodeView) -> tuple[int, ...]:
        """Return the node's free devices per set, then per market."""
        node_prices = self._prices.of(view)
        set_masks = node_prices.set_masks
        if not any(set_masks):
            return ()
        free = view.base & ~view.exclusive & ~view.charged
        unions = [0] * self._size
        for first, mask in zip(self._markets.markets, set_masks, strict=True):
            unions[first] |= mask
        counts = tuple([(mask & free).bit_count() for mask in (*set_masks, *unions)])
        if not self.has_places:
            return counts
        left = self.free_shares.of(view).places()
        shared = (view.plain & view.shareable).bit_count()
        return (*counts, *[left.get(number, 0) for number in range(self._several)], shared)

    def _put(self, name: str, counts: tuple[int, ...]) -> None:
        former = self._by_node.get(name, ())
        if counts == former:
            return
        self._by_node[name] = counts
        self._costs.clear()
        free = self._free
        for number, (before, after) in enumerate(zip(former or repeat(0), counts or repeat(0), strict=False)):
            if before != after:
                free[number] += after - before

    def free_devices(self, alternative: Alternative) -> int:
        """Return the number of free devices in a request's set; 0 where sets do not compete or the set is unknown."""
        number = self._prices.set_of(alternative)
        return self._free[number] if number is not None and self.contested else 0

    def contended(self, own: int | None, touched: Iterable[int]) -> tuple[int, ...]:
        """Return the sets, of those that the taken device belongs to, that do not contain the request's own set.

        A request with another choice takes the device from them. Of equal sets the first stands for all.
        """
        if own is None or not self._markets.exists:
            return ()
        markets = self._markets
        return tuple(
            number
            for number in touched
            if not markets.inside(own, number)
            and not any(markets.same(number, earlier) for earlier in range(number))
        )

    def contention_cost(self, contention: Contention) -> int:
        """Return the present cost, `UNIT` for a whole device. `contention`: a set number per device that a set loses."""
        if not contention:
            return 0
        costs = self._costs
        total = 0
        for number in contention:
            if number not in costs:
                costs[number] = self._cost(number)
            total += costs[number]
        return total

    def place(self, number: int) -> int:
        """Return the number of a request for several shared devices among the sets of a contention."""
        return self._size + number

    def with_host(
        self, contention: Contention, name: str, left: HostResources, requested: HostResources
    ) -> Contention:
        """Return the contention of a choice on a node whose cpu and memory matter: places without enough of both are none."""
        host_places = self.host_places
        if not host_places.kinds:
            return contention
        sets, lost = self._split(contention) if contention else ((), ())
        taken = host_places.taken(name, left, requested, lost)
        if not lost and not taken:
            return contention
        first = self._size + self._several
        return (*sets, *[first + kind for kind in taken])

    def _split(self, contention: Contention) -> tuple[Contention, Contention]:
        """Return the sets of a contention, and the requests for several shared devices, which come last."""
        found = self._splits.get(contention)
        if found is None:
            sets = tuple([number for number in contention if number < self._size])
            lost = tuple([number - self._size for number in contention[len(sets) :]])
            found = self._splits[contention] = sets, lost
        return found

    def _cost(self, number: int) -> int:
        if number >= self._size + self._several:
            kind, hosted = number - self._size - self._several, self.host_places
            return self._place_cost(hosted.kinds[kind].number, hosted.parts[kind], hosted.left[kind])
        if number >= self._size:
            return self._place_cost(number - self._size, 1.0, self._free[self._size + number])
        if not self._captives:
            self._captives = captives(self._size, self._latest, self._prices, self._markets)
        share, variance, per_claim = self._captives[number]
        left = self._free[self._size + self._markets.markets[number]]
        slack = (self._free[number] - share * left) / sqrt(variance * left + 1)
        return round(UNIT * log1p(exp(min(EASE - slack, 50.0))) / per_claim)

    def _place_cost(self, number: int, part: float, left: int) -> int:
        """Return the present cost of one of `left` places: it hardly matters while there are more than claims to come, and then much.

        `number`: of the request; `part`: of its claims those that need such a place.
        """
        if not self._expected:
            self._expected = self._expect()
        return round(UNIT * PLACE * (self._expected[number] * part / max(left, 1)) ** 2)

    def _expect(self) -> list[float]:
        """Return how many claims for several shared devices come until such demand fills the cluster."""
        weights = [0] * self._several
        devices = 0.0
        for entry in self._latest:
            if entry.alternative is None or entry.alternative not in self._prices.parts:
                continue
            devices += entry.weight * entry.count * self._prices.parts[entry.alternative]
            if entry.alternative in self._prices.several:
                weights[self._prices.several[entry.alternative]] += entry.weight
        return [weight * self._free[-1] / devices if devices else 0.0 for weight in weights]
