"""QueryCache: selector results and rankings, kept between claims.

In: a query, a strategy. Out: the kept ranking. Queries that match the same devices
on every known node class share a ranking, whatever the texts of their selectors. All
tables are bounded; rankings and selector results leave least recently used first.
"""

from collections import OrderedDict
from itertools import islice
from typing import TypeAlias

from apportion.allocator.equivalence.nodeclasses import NodeClasses
from apportion.allocator.memo import Memo
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.ranking.ranking import Ranking
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorResults, Selectors
from apportion.allocator.search.scorer import Scorer, Strategy
from apportion.cel.kept import Kept

MOST_QUERIES = 256
"""Queries whose rankings are kept."""

MOST_TEXTS = 2048
"""Selectors whose results are kept."""

MOST_RESULTS = 1 << 21
"""Results of all of them, when another selector comes: one takes a fifth of a kibibyte, and selectors that read UUIDs have one for each device."""

MOST_LINKS = 65_536
"""Signature transitions kept."""

MatchSignature: TypeAlias = object
"""Identifies the devices matched on every known class; queries with one signature share a ranking."""


class QueryCache:
    """The cache of one state."""

    def __init__(self, selectors: Selectors, node_classes: NodeClasses) -> None:
        self._selectors = selectors
        self._node_classes = node_classes
        self._results: Kept[str, SelectorResults] = Kept(
            MOST_TEXTS, size=lambda results: results.size, largest=MOST_RESULTS
        )
        self._rankings: OrderedDict[tuple[MatchSignature, str, bool, object], Ranking] = OrderedDict()
        self._shared: Memo[Query, bool] = Memo(MOST_TEXTS)
        self._signatures: Memo[Query, tuple[int, MatchSignature]] = Memo(MOST_TEXTS)
        """Per query: the number of classes covered, and the signature over them."""
        self._links: Memo[object, MatchSignature] = Memo(MOST_LINKS)
        """The next signature, by the former one and the devices matched on the next class."""
        self._representatives: Memo[MatchSignature, Query] = Memo(MOST_TEXTS)
        self._epoch = node_classes.epoch

    def forget(self) -> None:
        """Forget all signatures: the classes are void."""
        for table in (self._shared, self._signatures, self._links, self._representatives):
            table.clear()

    def shared(self, query: Query) -> bool:
        """Say whether all nodes of a node state have the same outcome for this query."""
        found = self._shared.get(query)
        if found is None:
            found = self._shared[query] = (
                query.counted
                and self.knows(query.amounts)
                and self._node_classes.covers([self.selectors(text).reads for text in query.texts])
                and self._node_classes.agree([constraint.attribute for constraint in query.constraints])
            )
        return found

    def representative(self, query: Query) -> Query:
        """Return the representative of all queries that match the same devices on every known node class.

        A new class may split them.
        """
        if not self.shared(query):
            return query
        signature = self._signature(query)
        found = self._representatives.get(signature)
        if found is None:
            found = self._representatives[signature] = query
        return found

    def comparable(self, scorer: Scorer) -> bool:
        """Say whether nodes of one state are equal in everything that the scorer compares or reads."""
        classes = self._node_classes
        # Where values are read, it is not enough that the same devices agree.
        return (
            (
                not scorer.values
                or classes.covers([frozenset([("attribute", name) for name in scorer.values])])
            )
            and (not scorer.compared or classes.agree(scorer.compared))
            and (not scorer.amounts or classes.knows(scorer.amounts))
        )

    def knows(self, amounts: frozenset[str]) -> bool:
        """Say whether all nodes of a class have equal amounts of these capacities."""
        return self._node_classes.knows(amounts)

    def ranking(
        self, query: Query, strategy: Strategy, *, shared: bool, variant: object = None
    ) -> Ranking | None:
        """Return the kept ranking of a query.

        `variant`: what else outcomes depend on: the ladder, and the scorer's discriminator of the query.
        """
        key = self._signature(query) if shared else query, strategy.value, shared, variant
        found = self._rankings.get(key)
        if found is not None:
            self._rankings.move_to_end(key)
        return found

    def latest(self, most: int) -> list[RankedStates]:
        """Return the shared rankings used last, the latest first, each valid for its `query`."""
        latest = [
            ranking
            for ranking in islice(reversed(self._rankings.values()), most)
            if isinstance(ranking, RankedStates)
        ]
        for ranking in latest:
            # A new class may split the queries that shared the ranking.
            self._signature(ranking.query)
        return latest

    def keep(self, query: Query, strategy: Strategy, ranking: Ranking, variant: object = None) -> None:
        """Keep a ranking for the next claim with the same query."""
        signature = self._signature(query) if ranking.shared else query
        self._rankings[signature, strategy.value, ranking.shared, variant] = ranking
        if len(self._rankings) > MOST_QUERIES:
            self._rankings.popitem(last=False)

    def reads_own(self, text: str) -> bool:
        """Say whether a selector reads what differs from node to node, so that it is evaluated on each node."""
        return not self._node_classes.covers([self.selectors(text).reads])

    def samples(self) -> list[NodeView]:
        """Return a node of each known class."""
        return [view for _, view in self._node_classes.log]

    def has_compiled(self, text: str) -> bool:
        """Say whether the results of a selector are kept, and so its program."""
        return text in self._results

    def selectors(self, text: str) -> SelectorResults:
        """Return the results of a selector."""
        found = self._results.get(text)
        if found is None:
            found = SelectorResults(self._selectors, text)
            self._results.put(text, found, len(text))
        return found

    def _signature(self, query: Query) -> MatchSignature:
        """Return the signature of the devices matched on every known class."""
        classes = self._node_classes
        if self._epoch != classes.epoch:
            # Classes left the log, so positions in it changed.
            self._epoch = classes.epoch
            self._links.clear()
            for known, (_, signature) in self._signatures.items():
                self._signatures[known] = 0, signature
        covered, former = self._signatures.get(query, (0, None))
        log = classes.log
        if former is not None and covered == len(log):
            return former
        signature = former if covered else query.frame
        for _, view in log[covered:]:
            link = signature, view.matched(query, self.selectors) or query
            found = self._links.get(link)
            if found is None:
                found = self._links[link] = object()
            signature = found
        self._signatures[query] = len(log), signature
        if former is not None:
            self._move_rankings(former, signature, query)
            first = self._representatives.get(former)
            # It stays the representative of all, unless the new classes separate it from this query.
            if first is not None and first is not query and self._signature(first) is signature:
                self._representatives.setdefault(signature, first)
        return signature

    def _move_rankings(self, former: MatchSignature, signature: MatchSignature, query: Query) -> None:
        """Move rankings to the new signature of a query: their outcomes on the older classes stay valid."""
        for key in [known for known in self._rankings if known[0] is former and known[2]]:
            kept = self._rankings.pop(key)
            # The query that used it last may have another signature by now.
            kept.query = query
            self._rankings.setdefault((signature, *key[1:]), kept)
