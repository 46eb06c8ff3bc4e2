"""Scorer: the interface of a strategy, and the strategies by name."""

from collections.abc import Generator, Iterable, Sequence
from enum import Enum
from typing import Protocol

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Contention, Outcome, Score, Solved
from apportion.allocator.search.search import Pick, Search
from apportion.allocator.search.searchbudget import FULL, SearchBudget
from apportion.allocator.search.solve import solve


class Strategy(Enum):
    """How to choose among nodes and devices that can serve a claim (`AllocationPolicy.spec.strategy`)."""

    FIRST_FIT = "FirstFit"
    """The first node by name, and upstream's choice on it: the first devices in the order of pools, slices and devices."""
    PACK = "Pack"
    """The fullest node, and the device with the fewest free devices near it, so that cards and nodes stay whole."""
    SPREAD = "Spread"
    """The emptiest node, and the device with the most free devices near it."""
    LEAST_FRAGMENTATION = "LeastFragmentation"
    """The choice that leaves room for most of the expected demand, which a policy names or earlier claims show."""


class OutcomeKeeper(Protocol):
    """Nodes that share the outcomes of searches (`equivalence.nodestate.NodeState`)."""

    @property
    def price_free(self) -> dict[Query, Outcome]:
        """Return the outcomes whose picks do not depend on prices."""
        ...

    @property
    def holdings(self) -> object:
        """Return what is held on each of them (`NodeView.holdings`)."""
        ...


class Scorer(Protocol):
    """A strategy with its state. Implementations need `order` and `score`; the rest has defaults.

    A strategy that prefers devices with high positions, and rates all nodes equally:

    >>> from types import SimpleNamespace
    >>> from apportion.allocator.bits import bits
    >>> class LastDevice(Scorer):
    ...     def order(self, search, candidates, mask):
    ...         prefer = search.prefer
    ...         return sorted(bits(mask), key=lambda device: (prefer.get(device, 0), device), reverse=True)
    ...     def score(self, search):
    ...         return ()
    >>> LastDevice().order(SimpleNamespace(prefer={0: 1}), None, 0b1011)
    [0, 3, 1]

    Masks, counters and neighbours are equal on all nodes that share an outcome. Values of attributes and amounts of capacities
    may differ there: a strategy that reads some names them in `compared`, `values` and `amounts`.
    """

    scans: bool = True
    """Whether every node is rated; otherwise the first node that can serve is chosen."""
    reads: frozenset[str] | None = None
    """Attributes by which classes must be equal to share outcomes; None: unknown, so only nodes of one state share them."""
    compared: tuple[str, ...] = ()
    """Attributes of which the strategy asks whether devices of a node agree in them."""
    values: frozenset[str] = frozenset()
    """Attributes whose values the strategy reads, or compares with those of another attribute."""
    amounts: frozenset[str] = frozenset()
    """Capacities, qualified or not, whose amounts the strategy reads."""
    values_idle: bool = False
    """Whether the strategy counts idle partitions that a choice would destroy."""

    @property
    def strategy(self) -> "Scorer":
        """The strategy without its ladder."""
        return self

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask in the order to try them, those of `search.prefer` first."""
        ...

    def score(self, search: Search) -> Score:
        """Rate a finished search; the smallest wins: among nodes, and with a ladder among equally close sets on a node."""
        ...

    def contention(self, _search: Search) -> Contention:
        """Return the sets of devices that a finished search takes from other claims."""
        return ()

    def contention_cost(self, _contention: Contention) -> float:
        """Return what that costs now. It is added to the second component of the score."""
        return 0.0

    def finish(
        self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]
    ) -> Generator[None, None, Solved]:
        """Return the outcome of a search that found these picks; yields as `Search.slices` does."""
        yield from ()
        return self.rated(search, ranks, picks)

    def rated(self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]) -> Solved:
        """Return the outcome of these picks."""
        bonus = sum([search.prefer.get(pick.device, 0) for pick in picks]) if search.prefer else 0
        return Solved(ranks, (-bonus, *self.score(search)), picks, self.contention(search))

    def discriminator(self, _query: Query) -> object:
        """Key in which two queries must be equal, in addition to the devices that they match, to share outcomes."""
        return ()

    def shortcut(
        self, _view: NodeView, _query: Query, _selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return the outcome if no search is needed for it. `shared`: all nodes of the class match the same devices."""
        del shared
        return None

    def estimate(self, _view: NodeView, _query: Query, _selectors: SelectorLookup) -> Outcome | None:
        """Return the outcome without picks; None where it needs a search."""
        return None

    def outcome(
        self,
        view: NodeView,
        query: Query,
        selectors: SelectorLookup,
        _keeper: OutcomeKeeper,
        budget: SearchBudget = FULL,
    ) -> Outcome:
        """Return the outcome of all nodes of a state, as an estimate if the strategy has one. Raises Paused as the search does."""
        found = self.shortcut(view, query, selectors, shared=True)
        return found if found is not None else solve(view, query, self, selectors, budget)

    def destroyed(self, _view: NodeView, _picks: Sequence[Pick], _idle: Iterable[int]) -> int:
        """Return the worth of the idle partitions that no longer fit together with the picks."""
        return 0
