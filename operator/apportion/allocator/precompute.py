"""The default strategy's answers for the standings of a roster: every touched node passes here once per shape.

In: a roster that is behind, the shape that it answers. Out: the roster with an answer for every standing. Kept short.
"""

from apportion.allocator.equivalence.nodestate import NodeStates
from apportion.allocator.ranking.rankedstates import RankedStates
from apportion.allocator.rules.query import NamedQuery
from apportion.allocator.state import State
from apportion.allocator.strategies.least_fragmentation import LeastFragmentation
from apportion.allocator.strategies.rerate import solve_again

MANY = 256
"""Changes from which on a look is worth it while nobody waits: fewer may be overtaken before anybody asks."""

MOST_ROSTERS = 16
"""Rosters that are looked at then; those asked last."""


def catch_up(
    state: State, standings: NodeStates, shape: NamedQuery, roster: RankedStates, scorer: LeastFragmentation
) -> None:
    """Let the roster learn what nodes answer that were touched since."""
    answers, one, glance, view = state.answers, scorer.one, scorer.glance, state.view
    for standing in roster.catch_up(standings):
        here = view(standing.first())
        found = one.outcome(here, shape, answers, shared=True) or glance.outcome(here, shape, answers)
        if found is None:
            found = solve_again(here, shape, scorer, answers, standing)
        roster.learn(standing, found)


def precompute(state: State, *, many: int = MANY) -> None:
    """Find out now what the next claims will need where so many nodes changed since it was last done. Changes no answer."""
    standings = state.settle()
    if standings.end - state.looked_over < many:
        return
    state.looked_over = standings.end
    scorer = state.scorer()
    for roster in state.recall.rosters(MOST_ROSTERS):
        if roster.scorer is scorer and roster.asked is not None and roster.behind(standings) >= many:
            catch_up(state, standings, roster.asked, roster, scorer)
