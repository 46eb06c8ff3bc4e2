"""How short the devices are that only some claims can use.

In: how nodes stand, one touched node at a time. Out: what it costs now to take a device that others need and the claim
does not. Sets of devices are what claims' selectors accept. For each set, slack is the free devices in it less what
those who can go nowhere else will take of what is left, in standard deviations of that demand.
"""

from collections.abc import Iterable, Mapping
from math import exp, log1p, sqrt
from typing import NamedTuple, Protocol
from weakref import WeakSet

from apportion.allocator.equivalence.nodeclass import NodeClass
from apportion.allocator.equivalence.nodestate import NodeStates
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

    def __init__(self, outlook: DemandPrices) -> None:
        self._outlook = outlook
        self._size = len(outlook.sets)
        self._cursor = -1
        self._free: list[int] = []
        """Per set, then per market under the number of its first set."""
        self._known: dict[str, tuple[int, ...]] = {}
        """The same of each node."""
        self._kinds: WeakSet[NodeClass] = WeakSet()
        """Kinds whose sets were compared; gone with their last node."""
        self._kind: NodeClass | None = None
        """The last of them: most nodes are of its kind."""
        self._rivalry = Markets(self._size)
        self.version = 0
        """Grows when what is known of the sets changes, so that answers given before are void."""
        self._latest = outlook.mix
        self._captives: list[Captive] = []
        """Per set, made anew with the demand and with the sets."""
        self._tolls: dict[int, int] = {}

    @property
    def rival(self) -> bool:
        """Whether some set shares devices with another without lying inside it: only then does anything cost a toll."""
        return self._rivalry.exists

    def catch_up(self, cluster: ClusterState, standings: NodeStates, latest: DemandMix) -> None:
        """Look at the nodes touched since. `latest`: the demand as it is now; prices of room may be of an older one."""
        if latest is not self._latest:
            self._latest = latest
            self._captives.clear()
            self._tolls.clear()
        self._cursor, touched = cluster.since(self._cursor)
        names = cluster.names()
        if touched is None:
            views = [cluster.view(standing.first()) for standing in standings.all()]
        else:
            views = [cluster.view(name) for name in touched if name in names]
        version = self.version
        # Which devices make a market must be known before they are counted.
        for view in views:
            self._compare(view)
        if touched is None or self.version != version:
            self._count(cluster, standings)
            return
        if self.rival:
            for name in touched:
                if name in names:
                    self._enter(name, self._row(cluster.view(name)))
                elif name in self._known:
                    self._enter(name, ())
                    del self._known[name]

    def _compare(self, view: NodeView) -> None:
        """Learn how the sets lie to each other on a kind of node not seen before."""
        kind = view.kind
        if kind is self._kind or kind is None:
            return
        self._kind = kind
        if kind not in self._kinds:
            self._kinds.add(kind)
            if self._rivalry.learn(self._outlook.sight(view).reaches):
                self.version += 1
                self._captives.clear()

    def _count(self, cluster: ClusterState, standings: NodeStates) -> None:
        self._known.clear()
        self._free = [0] * (2 * self._size)
        self._tolls.clear()
        if not self.rival:
            return
        for standing in standings.all():
            row = self._row(cluster.view(standing.first()))
            if row:
                self._known.update(dict.fromkeys(standing.nodes, row))
                for one, count in enumerate(row):
                    self._free[one] += count * len(standing.nodes)

    def _row(self, view: NodeView) -> tuple[int, ...]:
        reaches = self._outlook.sight(view).reaches
        if not any(reaches):
            return ()
        free = view.base & ~view.exclusive
        unions = [0] * self._size
        for first, mask in zip(self._rivalry.markets, reaches, strict=True):
            unions[first] |= mask
        return tuple([(mask & free).bit_count() for mask in (*reaches, *unions)])

    def _enter(self, name: str, row: tuple[int, ...]) -> None:
        former = self._known.get(name, ())
        if row == former:
            return
        self._known[name] = row
        self._tolls.clear()
        for one, count in enumerate(former):
            self._free[one] -= count
        for one, count in enumerate(row):
            self._free[one] += count

    def reach(self, want: Alternative) -> int:
        """Return how many free devices a request chooses from; 0 where no two requests are rivals, or it is not known."""
        one = self._outlook.set_of(want)
        return self._free[one] if one is not None and self.rival else 0

    def harmed(self, want: int | None, reached: Iterable[int]) -> tuple[int, ...]:
        """Return the sets that lose devices to a claim that could go elsewhere. `reached`: the sets that it takes from."""
        if want is None or not self.rival:
            return ()
        rivalry = self._rivalry
        return tuple(
            one
            for one in reached
            if not rivalry.inside(want, one) and not any(rivalry.same(one, two) for two in range(one))
        )

    def toll(self, harm: tuple[int, ...]) -> int:
        """Return what the harm costs now, in the unit of worth. `harm`: sets, once per device that they lose."""
        if not harm:
            return 0
        tolls = self._tolls
        total = 0
        for one in harm:
            if one not in tolls:
                tolls[one] = self._price(one)
            total += tolls[one]
        return total

    def _price(self, one: int) -> int:
        if not self._captives:
            self._captives = self._look()
        part, spread, usual = self._captives[one]
        left = self._free[self._size + self._rivalry.markets[one]]
        slack = (self._free[one] - part * left) / sqrt(spread * left + 1)
        return round(UNIT * log1p(exp(min(EASE - slack, 50.0))) / usual)

    def _look(self) -> list[Captive]:
        size = range(self._size)
        demand = [0] * self._size
        squares = [0] * self._size
        claims = [0] * self._size
        for entry in self._latest:
            one = self._outlook.set_of(entry.want)
            if one is not None:
                claims[one] += entry.weight
                demand[one] += entry.weight * entry.count
                squares[one] += entry.weight * entry.count * entry.count
        markets = self._rivalry.markets
        found: list[Captive] = []
        for one in size:
            market = [other for other in size if markets[other] == markets[one]]
            # Nobody may want any of it of late.
            total = sum(demand[other] for other in market) or 1
            part = sum(demand[other] for other in market if self._rivalry.inside(other, one)) / total
            spread = sum(squares[other] for other in market) / total
            usual = total / (sum(claims[other] for other in market) or 1)
            found.append(Captive(part, spread * part * (1 - part), usual))
        return found
