"""How short the devices are that only some claims can use.

In: how nodes stand, one touched node at a time. Out: what it costs now to take a device that others need and the claim
does not. Sets of devices are what claims' selectors accept. For each set, slack is the free devices in it less what
those who can go nowhere else will take of what is left, in standard deviations of that demand.
"""

from collections.abc import Iterable, Mapping
from math import exp, log1p, sqrt
from typing import NamedTuple, Protocol
from weakref import WeakSet

from apportion.allocator.kind import Kind
from apportion.allocator.standing import Standings
from apportion.allocator.view import NodeView
from apportion.allocator.worth.cutting import UNIT
from apportion.allocator.worth.mix import Mix
from apportion.allocator.worth.outlook import Outlook

EASE = 6.0
"""Slack, in standard deviations, up from which a set costs next to nothing."""


class Cluster(Protocol):
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


class Market(NamedTuple):
    """Sets that share devices with one, and how the demand for them is spread."""

    sets: tuple[int, ...]
    part: float
    """Part of their demand that can go nowhere but into this one."""
    spread: float
    """Variance of that demand, per device that is left."""


class Supply:
    """Free devices by set, and the tolls that follow from them."""

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook
        size = len(outlook.sets)
        self._cursor = -1
        self._free = [0] * size
        self._known: dict[str, tuple[int, ...]] = {}
        self._kinds: WeakSet[Kind] = WeakSet()
        """Kinds whose sets were compared; gone with their last node."""
        self._kind: Kind | None = None
        """The last of them: most nodes are of its kind."""
        self._inside = [[True] * size for _ in range(size)]
        """Whether set i lies inside set j on every node."""
        self._meet = [[False] * size for _ in range(size)]
        self.rival = False
        """Whether some set shares devices with another without lying inside it: only then does anything cost a toll."""
        self.version = 0
        """Grows when what is known of the sets changes, so that answers given before are void."""
        self._latest = outlook.mix
        self._markets: list[Market | None] = []
        """Per set, made anew with the demand and with the sets."""
        self._tolls: dict[int, int] = {}

    def catch_up(self, cluster: Cluster, standings: Standings, latest: Mix) -> None:
        """Look at the nodes touched since. `latest`: the demand as it is now; prices of room may be of an older one."""
        if latest is not self._latest:
            self._latest = latest
            self._markets.clear()
            self._tolls.clear()
        self._cursor, touched = cluster.since(self._cursor)
        counted = self.rival
        names = cluster.names()
        for name in touched or ():
            if name in names:
                view = cluster.view(name)
                if self.rival or view.kind is not self._kind:
                    self._enter(name, self._row(view))
            else:
                self._enter(name, ())
                self._known.pop(name, None)
        if touched is None:
            self._count(cluster, standings)
        if self.rival and not counted:
            # Nobody was counted while no set had a rival.
            self._count(cluster, standings)

    def _count(self, cluster: Cluster, standings: Standings) -> None:
        self._known.clear()
        self._free = [0] * len(self._free)
        self._tolls.clear()
        for standing in standings.all():
            row = self._row(cluster.view(standing.first()))
            if row:
                self._known.update(dict.fromkeys(standing.nodes, row))
                for one, count in enumerate(row):
                    self._free[one] += count * len(standing.nodes)

    def harmed(self, want: int | None, reached: Iterable[int]) -> tuple[int, ...]:
        """Return the sets that lose devices to a claim that could go elsewhere. `reached`: the sets that it takes from."""
        if want is None or not self.rival:
            return ()
        inside = self._inside
        return tuple(
            one
            for one in reached
            # Selectors may differ in words only; such sets are one.
            if not inside[want][one] and not any(inside[one][two] and inside[two][one] for two in range(one))
        )

    def toll(self, harm: tuple[int, ...]) -> int:
        """Return what the harm costs now, in the unit of worth."""
        if not harm:
            return 0
        tolls = self._tolls
        total = 0
        for one in harm:
            if one not in tolls:
                tolls[one] = self._price(one)
            total += tolls[one]
        return total

    def _row(self, view: NodeView) -> tuple[int, ...]:
        sight = self._outlook.sight(view)
        kind = view.kind
        if kind is not self._kind and kind is not None:
            self._kind = kind
            if kind not in self._kinds:
                self._kinds.add(kind)
                self._compare(sight.reaches)
        if not self.rival or not any(sight.reaches):
            return ()
        free = view.base & ~view.exclusive
        return tuple([(mask & free).bit_count() for mask in sight.reaches])

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

    def _compare(self, reaches: tuple[int, ...]) -> None:
        """Learn how the sets lie to each other on a kind of node not seen before."""
        changed = False
        for i, mine in enumerate(reaches):
            for j, other in enumerate(reaches):
                if mine & ~other and self._inside[i][j]:
                    self._inside[i][j], changed = False, True
                if mine & other and not self._meet[i][j]:
                    self._meet[i][j], changed = True, True
        if changed:
            self.version += 1
            self._markets.clear()
            self._tolls.clear()
            size = range(len(reaches))
            self.rival = any(self._meet[i][j] and not self._inside[i][j] for i in size for j in size)

    def _price(self, one: int) -> int:
        if not self._markets:
            self._markets = self._look()
        market = self._markets[one]
        if market is None:
            return 0
        free = self._free
        # The widest set of the market tells how much is left in it.
        left = max([free[other] for other in market.sets])
        slack = (free[one] - market.part * left) / sqrt(market.spread * left + 1)
        return round(UNIT * log1p(exp(min(EASE - slack, 50.0))))

    def _look(self) -> list["Market | None"]:
        size = range(len(self._free))
        demand = [0] * len(self._free)
        squares = [0] * len(self._free)
        for entry in self._latest:
            one = self._outlook.set_of(entry.want)
            if one is not None:
                demand[one] += entry.weight * entry.count
                squares[one] += entry.weight * entry.count * entry.count
        found: list[Market | None] = []
        for one in size:
            sets = [other for other in size if self._meet[one][other]]
            total = sum(demand[other] for other in sets)
            if not total:
                found.append(None)
                continue
            part = sum(demand[other] for other in sets if self._inside[other][one]) / total
            spread = sum(squares[other] for other in sets) / total
            found.append(Market(tuple(sets), part, spread * part * (1 - part)))
        return found
