"""The demand that is to come, and the scorer that keeps room for it.

In: what claims asked for, one at a time. Out: a scorer, the same one until the mix has moved enough to be priced anew.
"""

from collections import OrderedDict

from apportion.allocator.host import Amounts
from apportion.allocator.score.least_fragmentation import LeastFragmentation
from apportion.allocator.shape import Meaning
from apportion.allocator.standing import Standings
from apportion.allocator.view import Answering
from apportion.allocator.worth.mix import Mix
from apportion.allocator.worth.needs import Needs, Typical
from apportion.allocator.worth.outlook import Boards, Outlook
from apportion.allocator.worth.recent import Recent
from apportion.allocator.worth.supply import Cluster, Supply

MOST_MIXES = 16
"""Mixes that are priced at a time: the one learnt, and one per AllocationPolicy that gives its own."""


class Expected:
    """Belongs to one state; changed by `learn` only."""

    def __init__(self, answers: Answering) -> None:
        self._answers = answers
        self._recent = Recent()
        self._needs = Needs()
        self._boards = Boards()
        self._scorers: OrderedDict[Mix, LeastFragmentation] = OrderedDict()
        self._current: tuple[Mix, LeastFragmentation] | None = None

    def learn(self, asked: Meaning, host: Amounts | None = None) -> None:
        """Learn what was asked for. `host`: what the pods request beside devices, if there are pods."""
        self._recent.note(asked)
        if host is not None:
            self._needs.note(asked, host)

    @property
    def typical(self) -> Typical:
        """Return what pods of late requested beside devices."""
        return self._needs.typical

    def scorer(self, cluster: Cluster, standings: Standings, mix: Mix | None = None) -> LeastFragmentation:
        """Return the scorer for a mix; None: for the one that was learnt."""
        wanted = self._recent.mix if mix is None else mix
        found = (
            self._scorers.get(wanted)
            if self._current is None or self._current[0] is not wanted
            else self._current[1]
        )
        if found is None:
            found = self._make(wanted)
        version = found.supply.version
        found.supply.catch_up(cluster, standings, self._recent.latest if mix is None else mix)
        if found.supply.version != version:
            # Answers given before are void, and go with their scorer.
            found = self._make(wanted, found.supply)
        self._current = wanted, found
        return found

    def _make(self, mix: Mix, supply: Supply | None = None) -> LeastFragmentation:
        outlook = Outlook(mix, self._boards, self._answers)
        found = self._scorers[mix] = LeastFragmentation(outlook, supply)
        if len(self._scorers) > MOST_MIXES:
            self._scorers.popitem(last=False)
        return found
