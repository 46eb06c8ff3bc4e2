"""find_gang_victims(): victims with which all members of a gang are served together, or nobody goes.

In: a state, members with a demand each, how close their nodes have to be, the victims of each node. Out: the victims of all nodes, and the
devices of each member once they are gone; or None. Pure and deterministic; the state is unchanged at the end.

Where all nodes have to be in one domain, the domain with the cheapest victims is chosen. What is found is not proven to be the cheapest, but none of
the victims can be left out: no part of them would do. A gang that gets its devices without victims has none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.decision import Decision
from apportion.allocator.gang.domains import GroupLadder, domains_of
from apportion.allocator.preemption.gangroom import GangMember
from apportion.allocator.preemption.gangsearch import GangSearch
from apportion.allocator.preemption.nodesearch import Budget
from apportion.allocator.preemption.severalnodes import Going, SeveralNodes
from apportion.allocator.preemption.victims import NodeVictims, Victim, VictimCost
from apportion.allocator.state import State
from apportion.dra.device import DeviceId

GANG_TRIES = 1024
"""Questions that a search may ask of the allocator."""
MOST_DOMAINS = 8
"""Domains of which victims are searched, where all members have to be in one."""


@dataclass(frozen=True, slots=True)
class GangVictims:
    """The victims to evict, and what each member gets then."""

    victims: tuple[Victim, ...]
    """Of all nodes, those included that go with a group."""
    groups: frozenset[str]
    """Groups that are evicted as a whole, with their pods on other nodes."""
    cost: VictimCost
    decisions: tuple[Decision, ...]
    """Per member, in the order given."""
    proven: bool
    """Whether none of the victims can be left out; else the search ended at its budget."""


def find_gang_victims(
    state: State,
    members: Sequence[GangMember],
    nodes: Sequence[NodeVictims],
    *,
    ladder: GroupLadder | None = None,
    prefer: Mapping[DeviceId, int] | None = None,
    tries: int = GANG_TRIES,
) -> GangVictims | None:
    """Return victims with which all members are served; None: there are none, or the gang needs none, or they were not found.

    `nodes`: all that count, also those without a victim.

    Raises BrokenInput if a member's claims cannot be served by any state as they are written.
    """
    closeness, budget = ladder or GroupLadder(), Budget(tries)
    victims = SeveralNodes([each for each in nodes if each.node in state.names()])
    search = GangSearch(state, members, victims, closeness, prefer or {}, budget)
    if not victims.all or search.served(frozenset()) is not None:
        return None
    found: list[Going] = []
    for within in _domains(state, closeness):
        going = search.cheapest(within)
        if going is not None and victims.allows(going):
            found.append(going)
    found.sort(key=lambda going: (victims.cost(going), sorted(going)))
    for going in (*found, victims.all):
        narrowed = search.narrowed(going)
        if narrowed is None or not victims.allows(narrowed):
            continue
        decisions = search.served(narrowed)
        if decisions is not None:
            gone = victims.closed(narrowed)
            return GangVictims(
                tuple(victims.victim(place) for place in sorted(gone)),
                victims.broken(narrowed),
                victims.cost(narrowed),
                decisions,
                budget.left > 0,
            )
    return None


def _domains(state: State, ladder: GroupLadder) -> Sequence[frozenset[str] | None]:
    """Return the nodes of each domain in which all members may be; None: wherever they like."""
    if not ladder.required:
        return [None]
    found = domains_of(state, ladder.required).values()
    return [nodes for nodes in found if not ladder.occupied or nodes & ladder.occupied][:MOST_DOMAINS]
