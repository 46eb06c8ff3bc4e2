"""Scorer: what a strategy must be able to say, and the strategies by name."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Protocol

from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorLookup
from apportion.allocator.search.candidates import Candidates
from apportion.allocator.search.outcome import Contention, Outcome, Score, Solved
from apportion.allocator.search.search import Pick, Search
from apportion.allocator.search.solve import solve


class Strategy(Enum):
    """How to choose among nodes and devices that can all serve."""

    FIRST_FIT = "FirstFit"
    """Upstream's choice: the first node by name, the first devices in the order of pools, slices and devices."""
    PACK = "Pack"
    """The fullest node, the device with the least free around it: whole cards and nodes stay whole."""
    SPREAD = "Spread"
    """The emptiest node, the device with the most free around it."""
    LEAST_FRAGMENTATION = "LeastFragmentation"
    """The choice that keeps the most future demand placeable; the demand is learnt from claims, or a policy names it."""


class OutcomeKeeper(Protocol):
    """A group of nodes that one search serves (`equivalence.nodestate.NodeState`)."""

    @property
    def price_free(self) -> dict[Query, Outcome]:
        """Return the outcomes whose picks do not depend on prices."""
        ...


class Scorer(Protocol):
    """A strategy at work. Only `order` and `score` must be written; the rest has defaults.

    A strategy that prefers devices with high positions, and rates all nodes alike:

    >>> from apportion.allocator.bits import bits
    >>> class LastDevice(Scorer):
    ...     def order(self, search, candidates, mask):
    ...         return sorted(bits(mask), reverse=True)
    ...     def score(self, search):
    ...         return ()
    >>> LastDevice().order(None, None, 0b1011)
    [3, 1, 0]
    """

    scans: bool = True
    """Whether every node is looked at; otherwise the first that serves is taken."""
    reads: frozenset[str] | None = None
    """Attributes that the strategy looks at; None: unknown, so only nodes of one state share outcomes."""
    compared: tuple[str, ...] = ()
    """Attributes in which the strategy compares devices with each other."""
    mixed: frozenset[str] = frozenset()
    """Of these, attributes whose values are compared with values of another attribute."""
    values_idle: bool = False
    """Whether the strategy counts idle partitions that a choice would destroy."""

    @property
    def strategy(self) -> "Scorer":
        """Return the strategy itself, without a ladder around it."""
        return self

    def order(self, search: Search, candidates: Candidates, mask: int) -> Sequence[int]:
        """Return the devices of the mask, the one to try first first."""
        ...

    def score(self, search: Search) -> Score:
        """Rate a finished search; the smallest wins."""
        ...

    def contention(self, _search: Search) -> Contention:
        """Return the sets of devices that a finished search takes from other claims."""
        return ()

    def contention_cost(self, _contention: Contention) -> float:
        """Return what that costs now. It is added to the second part of the score."""
        return 0.0

    def finish(self, search: Search, ranks: tuple[int, ...], picks: tuple[Pick, ...]) -> Solved:
        """Return the outcome of a search that found these picks."""
        bonus = sum([search.prefer.get(pick.device, 0) for pick in picks]) if search.prefer else 0
        return Solved(ranks, (-bonus, *self.score(search)), picks, self.contention(search))

    def discriminator(self, _query: Query) -> object:
        """Return what two queries must have in common, beside the devices that they match, to share outcomes."""
        return ()

    def shortcut(
        self, _view: NodeView, _query: Query, _selectors: SelectorLookup, *, shared: bool
    ) -> Outcome | None:
        """Return what a search would find, where it is known without one. `shared`: all nodes of the class answer alike."""
        del shared
        return None

    def estimate(self, _view: NodeView, _query: Query, _selectors: SelectorLookup) -> Outcome | None:
        """Return what a search would find, without picks; None where only a search can tell."""
        return None

    def outcome(
        self, view: NodeView, query: Query, selectors: SelectorLookup, _keeper: OutcomeKeeper
    ) -> Outcome:
        """Return the outcome of all nodes of a state, as an estimate where the strategy has one."""
        found = self.shortcut(view, query, selectors, shared=True)
        return found if found is not None else solve(view, query, self, selectors)

    def destroyed(self, _view: NodeView, _picks: Sequence[Pick], _idle: Iterable[int]) -> int:
        """Return what the idle partitions are worth that no longer fit beside the picks."""
        return 0
