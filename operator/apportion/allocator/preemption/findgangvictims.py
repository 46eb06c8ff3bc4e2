"""find_gang_victims(): victims with which all members of a gang are served together, or nobody goes.

In: a state, members with a demand each, how close their nodes have to be, the victims of each node. Out: the victims of all nodes, and the
devices of each member once they are gone; or None. Pure and deterministic; the state is unchanged at the end.

Where all nodes have to be in one domain, the domain with the cheapest victims is chosen. What is found is not proven to be the cheapest, but none of
the victims can be left out: no part of them would do. A gang that gets its devices without victims has none.
`gang_victim_steps()` does the same in steps, between which the state is as it was.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.decision import Decision
from apportion.allocator.finished import finished
from apportion.allocator.gang.domains import GroupLadder, domains_of
from apportion.allocator.preemption.asread import AsRead
from apportion.allocator.preemption.gangroom import GangMember, Neighbours
from apportion.allocator.preemption.gangsearch import GangSearch
from apportion.allocator.preemption.nodesearch import Budget
from apportion.allocator.preemption.severalnodes import Going, SeveralNodes
from apportion.allocator.preemption.victims import NodeVictims, Victim, VictimCost
from apportion.allocator.state import State
from apportion.dra.device import DeviceId

GANG_TRIES = 1024
"""Questions that a search may ask of the allocator."""
_TIMES = 3
"""Searches for a gang at most, if nodes change meanwhile."""
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
    read = {each.node: each for each in nodes}.__getitem__
    names = [each.node for each in nodes]
    return finished(gang_victim_steps(state, members, names, read, ladder=ladder, prefer=prefer, tries=tries))


def gang_victim_steps(
    state: State,
    members: Sequence[GangMember],
    nodes: Sequence[str],
    read: Callable[[str], NodeVictims],
    *,
    ladder: GroupLadder | None = None,
    prefer: Mapping[DeviceId, int] | None = None,
    tries: int = GANG_TRIES,
    neighbours: Neighbours | None = None,
    pauses: Callable[[], bool] = lambda: False,
) -> Generator[None, None, GangVictims | None]:
    """Do as `find_gang_victims`, and let others change the state where `pauses` says so; `read` returns the victims of a node as they are now.

    `neighbours`: what pods of the members ask of each other's nodes (None: nothing).

    What one of the nodes shows counts for all, so the search begins anew where one of them changes; the last of _TIMES searches lets nobody in.

    Raises BrokenInput as `find_gang_victims`.
    """
    for left in reversed(range(_TIMES)):
        as_read = AsRead(state)
        for name in nodes:
            if name in state.names():
                as_read.add(read(name))
                if pauses():
                    yield
        for name in as_read.changed():
            as_read.drop(name)
            if name in state.names():
                as_read.add(read(name))
        victims = SeveralNodes([*as_read.nodes.values()])
        search = GangSearch(
            state, members, victims, ladder or GroupLadder(), prefer or {}, Budget(tries), neighbours
        )
        steps, goes_on = _found(search, victims, _domains(state, ladder or GroupLadder())), True
        while goes_on:
            try:
                next(steps)
            except StopIteration as end:
                found: GangVictims | None = end.value
                return found
            if left and pauses():
                search.suspend()
                goes_on = False
                try:
                    yield
                    goes_on = not as_read.changed()
                finally:
                    search.resume() if goes_on else search.abandon()
        steps.close()
    return None


def _found(
    search: GangSearch, victims: SeveralNodes, domains: Sequence[frozenset[str] | None]
) -> Generator[None, None, GangVictims | None]:
    """Do one search."""
    if not victims.all or (yield from search.served(frozenset())) is not None:
        return None
    found: list[Going] = []
    for within in domains:
        going = yield from search.cheapest(within)
        if going is not None and victims.allows(going):
            found.append(going)
    found.sort(key=lambda going: (victims.cost(going), sorted(going)))
    for going in (*found, victims.all):
        if going not in found and not search.proven:
            return None  # who could stay is not asked any more: all of them would go
        narrowed = yield from search.narrowed(going)
        if narrowed is None or not victims.allows(narrowed):
            continue
        decisions = yield from search.served(narrowed)
        if decisions is not None:
            gone = victims.closed(narrowed)
            return GangVictims(
                tuple(victims.victim(place) for place in sorted(gone)),
                victims.broken(narrowed),
                victims.cost(narrowed),
                decisions,
                search.proven,
            )
    return None


def _domains(state: State, ladder: GroupLadder) -> Sequence[frozenset[str] | None]:
    """Return the nodes of each domain in which all members may be; None: wherever they like."""
    if not ladder.required:
        return [None]
    found = domains_of(state, ladder.required).values()
    return [nodes for nodes in found if not ladder.occupied or nodes & ladder.occupied][:MOST_DOMAINS]
