"""The demand that is to come, and the scorer that keeps room for it.

In: what claims asked for, one at a time. Out: a scorer, the same one until the mix has moved enough to be priced anew.
"""

from collections import OrderedDict

from apportion.allocator.score.least_fragmentation import LeastFragmentation
from apportion.allocator.shape import Meaning
from apportion.allocator.view import Answering
from apportion.allocator.worth.mix import Mix
from apportion.allocator.worth.outlook import Boards, Outlook
from apportion.allocator.worth.recent import Recent

MOST_MIXES = 16
"""Mixes that are priced at a time: the one learnt, and one per AllocationPolicy that gives its own."""


class Expected:
    """Belongs to one state; changed by `learn` only."""

    def __init__(self, answers: Answering) -> None:
        self._answers = answers
        self._recent = Recent()
        self._boards = Boards()
        self._scorers: OrderedDict[Mix, LeastFragmentation] = OrderedDict()
        self._current: tuple[Mix, LeastFragmentation] | None = None

    def learn(self, asked: Meaning) -> None:
        """Learn what was asked for."""
        self._recent.note(asked)

    def scorer(self, mix: Mix | None = None) -> LeastFragmentation:
        """Return the scorer for a mix; None: for the one that was learnt."""
        wanted = self._recent.mix if mix is None else mix
        current = self._current
        if current is not None and current[0] is wanted:
            return current[1]
        found = self._scorers.get(wanted)
        if found is None:
            found = self._scorers[wanted] = LeastFragmentation(Outlook(wanted, self._boards, self._answers))
            if len(self._scorers) > MOST_MIXES:
                self._scorers.popitem(last=False)
        self._current = wanted, found
        return found
