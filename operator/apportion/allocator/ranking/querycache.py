"""What was found out about the claims asked before: selectors' answers, and the best nodes per meaning.

In: a meaning, a strategy. Out: what is remembered. Claims whose selectors accept the same devices everywhere are one
question, whatever their texts: they share a roster. Everything here is bounded; what was used least recently leaves.
"""

from collections import OrderedDict
from itertools import islice
from typing import TypeAlias

from apportion.allocator.closeness.ladder import Ladder
from apportion.allocator.equivalence.nodeclass import NodeClasses
from apportion.allocator.ranking.rankednodes import RankedNodes
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.rules.query import Query
from apportion.allocator.rules.selectors import SelectorResults, Selectors
from apportion.allocator.search.scorer import Strategy

MOST_SHAPES = 256
"""Meanings whose rankings are kept; the one used least recently leaves first."""

MOST_TEXTS = 2048
"""Selectors whose answers are kept; the oldest leaves first."""

MOST_LINKS = 65_536
"""Steps from token to token that are kept."""

MatchSignature: TypeAlias = object


class QueryCache:
    """Memory of questions."""

    def __init__(self, selectors: Selectors, kinds: NodeClasses) -> None:
        self._selectors = selectors
        self._kinds = kinds
        self._answers: OrderedDict[str, SelectorResults] = OrderedDict()
        self._rankings: OrderedDict[tuple[MatchSignature, str, bool, object], RankedNodes | RankedStates] = (
            OrderedDict()
        )
        self._shared: dict[Query, bool] = {}
        self._tokens: dict[Query, tuple[int, MatchSignature]] = {}
        """Per meaning: the kinds looked at, and what it matches on them."""
        self._links: dict[object, MatchSignature] = {}
        self._first: dict[MatchSignature, Query] = {}
        """The meaning that stands for all that match the same."""
        self._epoch = kinds.epoch

    def forget(self) -> None:
        """Start over: the kinds are void."""
        self._shared.clear()
        self._tokens.clear()
        self._links.clear()
        self._first.clear()

    def shared(self, meaning: Query) -> bool:
        """Say whether nodes that stand alike give the same answer to claims of this meaning."""
        found = self._shared.get(meaning)
        if found is None:
            reads = [self.answers(text).reads for text in meaning.texts]
            found = (
                meaning.plain
                and self._kinds.covers(reads)
                and self._kinds.agree([rule.attribute for rule in meaning.rules])
            )
            if len(self._shared) >= MOST_TEXTS:
                self._shared.clear()
            self._shared[meaning] = found
        return found

    def canonical(self, meaning: Query) -> Query:
        """Return the meaning that stands for all that match the same devices on every kind and ask the same of them.

        What is found out for it holds for all of them; what they mean on kinds to come may differ, and then they part.
        """
        if not self.shared(meaning):
            return meaning
        token = self._token(meaning)
        found = self._first.get(token)
        if found is None:
            if len(self._first) >= MOST_TEXTS:
                self._first.clear()
            found = self._first[token] = meaning
        return found

    def alike(self, ladder: Ladder) -> bool:
        """Say whether nodes that stand alike are alike in all that the ladder looks at."""
        # Where values of two attributes are compared, it is not enough that the same devices agree.
        mixed = frozenset([("attribute", name) for name in ladder.mixed])
        return self._kinds.covers([mixed]) and self._kinds.agree(ladder.names)

    def ranking(
        self, meaning: Query, strategy: Strategy, *, shared: bool, variant: object = None
    ) -> RankedNodes | RankedStates | None:
        """Return what is remembered of a meaning: a roster if the nodes that stand alike share answers.

        `variant`: what else answers depend on: a ladder, what the strategy sees in the claims themselves.
        """
        key = self._token(meaning) if shared else meaning, strategy.value, shared, variant
        found = self._rankings.get(key)
        if found is not None:
            self._rankings.move_to_end(key)
        return found

    def rosters(self, most: int) -> list[RankedStates]:
        """Return the rosters that were asked last, the latest first."""
        latest = islice(reversed(self._rankings.values()), most)
        return [ranking for ranking in latest if isinstance(ranking, RankedStates)]

    def remember(
        self, meaning: Query, strategy: Strategy, ranking: RankedNodes | RankedStates, variant: object = None
    ) -> None:
        """Keep a ranking for the next claim that asks the same."""
        shared = isinstance(ranking, RankedStates)
        token = self._token(meaning) if shared else meaning
        self._rankings[token, strategy.value, shared, variant] = ranking
        if len(self._rankings) > MOST_SHAPES:
            self._rankings.popitem(last=False)

    def answers(self, text: str) -> SelectorResults:
        """Return what a selector answers, remembered by what it reads."""
        found = self._answers.get(text)
        if found is None:
            found = self._answers[text] = SelectorResults(self._selectors, text)
            if len(self._answers) > MOST_TEXTS:
                self._answers.popitem(last=False)
        return found

    def _token(self, meaning: Query) -> MatchSignature:
        """Return one object for all meanings that match the same devices on every kind, and ask the same of them."""
        kinds = self._kinds
        if self._epoch != kinds.epoch:
            # NodeClasses left the list, so positions in it mean others.
            self._epoch = kinds.epoch
            self._links.clear()
            self._tokens = {known: (0, token) for known, (_, token) in self._tokens.items()}
        seen, former = self._tokens.get(meaning, (0, None))
        log = kinds.log
        if former is not None and seen == len(log):
            return former
        token: MatchSignature = former if seen else meaning.frame
        for kind in log[seen:]:
            link = token, kind.signature(meaning, self.answers)
            found = self._links.get(link)
            if found is None:
                if len(self._links) >= MOST_LINKS:
                    self._links.clear()
                found = self._links[link] = object()
            token = found
        if len(self._tokens) >= MOST_TEXTS:
            self._tokens.clear()
        self._tokens[meaning] = len(log), token
        if former is not None:
            self._move(former, token)
            first = self._first.get(former)
            # It goes on standing for them all, unless the new kinds tell it from this one.
            if first is not None and first is not meaning and self._token(first) is token:
                self._first.setdefault(token, first)
        return token

    def _move(self, former: MatchSignature, token: MatchSignature) -> None:
        """Let rosters go on under the new token: what they learnt of the older kinds stays true."""
        for key in [known for known in self._rankings if known[0] is former and known[2]]:
            kept = self._rankings.pop(key)
            self._rankings.setdefault((token, *key[1:]), kept)
