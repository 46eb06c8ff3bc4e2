"""place_closest(): place the members of a gang on nodes that are as close as it goes, by labels of nodes.

In: members in an order, a ladder of labels, closest first. Out: members placed in one domain of each required label, else nobody; within
that in one domain of the closest label that has a domain for all; else in as few domains as it goes, the members in their order, so that
neighbours in the order are neighbours in a domain. Of several domains that would do the one that could take the fewest is chosen:
larger ones stay whole. The numbers are exact for members of one kind that ask for whole devices, else bounds.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.gang.domains import DomainRoom, GroupLadder, domains_of, room_of
from apportion.allocator.gang.fill import GangFill
from apportion.allocator.gang.members import DomainShortage

MOST_TRIED = 4096
"""Members tried in domains that turned out too small; a gang is then spread, or tried in no more orders."""


def place_closest(
    gang: GangFill, order: Sequence[int], ladder: GroupLadder, *, first: bool = True
) -> Generator[None, None, DomainShortage | None]:
    """Place the members in an order; returns what is missing where no domain of the required labels can take enough of them.

    In the `first` order all domains that may be large enough are tried, in others until MOST_TRIED: a gang that stopped before the one that
    takes it would stop there at each try.

    Raises BrokenInput as `GangFill.fill`.
    """
    state = gang.placed.state
    room = yield from room_of(state, gang.members, gang.placed.demands)
    closest = _Closest(gang, room, ladder)
    labels = ladder.required
    if not labels:
        yield from closest.place(order, None)
        return None
    domains = closest.occupied(domains_of(state, labels))
    kinds = gang.kinds(order)
    best: tuple[tuple[str, ...], int] = (), 0
    ranked = closest.ranked(domains, kinds, gang.most)
    for values, pods in ranked:
        if pods < gang.enough or (closest.exhausted and not first):
            continue
        gang.placed.clear()
        yield from closest.place(order, domains[values])
        if gang.served >= gang.enough:
            return None
        best = max(best, (values, gang.served), key=lambda each: each[1])
    gang.placed.clear()
    best = max([best, *(each for each in ranked if each[1] < gang.enough)], key=lambda each: each[1])
    return DomainShortage(labels, *best)


@dataclass(frozen=True, slots=True)
class _Closest:
    """The arguments of one call."""

    gang: GangFill
    room: DomainRoom
    ladder: GroupLadder

    @property
    def exhausted(self) -> bool:
        """Whether enough was tried in vain."""
        return self.gang.asked > len(self.gang.members) + MOST_TRIED

    def occupied(
        self, domains: Mapping[tuple[str, ...], frozenset[str]]
    ) -> Mapping[tuple[str, ...], frozenset[str]]:
        """Return the domains where pods of the gang run already; all, if none does."""
        nodes = self.ladder.occupied
        return {values: own for values, own in domains.items() if own & nodes} if nodes else domains

    def ranked(
        self, domains: Mapping[tuple[str, ...], frozenset[str]], waiting: Mapping[object, int], missing: int
    ) -> list[tuple[tuple[str, ...], int]]:
        """Return the domains with the pods that each could take: those for all that are missing, the smallest first; then the largest.

        Of equal ones those where pods of the gang run are the first.
        """
        rows = []
        for values, nodes in domains.items():
            pods, room = self.room.pods_in(nodes, waiting)
            vacant = self.ladder.occupied.isdisjoint(nodes)
            rows.append(
                ((pods < missing, 0 if pods >= missing else -pods, room, vacant, values), values, pods)
            )
        return [(values, pods) for _, values, pods in sorted(rows)]

    def place(self, order: Sequence[int], nodes: frozenset[str] | None) -> Generator[None, None, None]:
        """Place members within some nodes (None: all), in one domain of the closest label that goes."""
        gang, kinds, closer = self.gang, self.gang.kinds(order), self.ladder.closer
        state = gang.placed.state
        for number, label in enumerate(closer):
            domains = self.occupied(domains_of(state, (label,), nodes))
            for values, pods in self.ranked(domains, kinds, gang.most):
                if pods < gang.most or self.exhausted:
                    break
                yield from self._spread(order, domains[values], closer[:number])
                if gang.served >= gang.most:
                    return
                gang.placed.clear()
        yield from self._spread(order, nodes, closer)

    def _spread(
        self, order: Sequence[int], nodes: frozenset[str] | None, closer: Sequence[str]
    ) -> Generator[None, None, None]:
        """Place members in as few domains of the widest of these labels as it goes, and so on within each."""
        gang = self.gang
        if not closer:
            yield from gang.fill(order, nodes)
            return
        domains = dict(domains_of(gang.placed.state, closer[-1:], nodes))
        within = frozenset(gang.placed.state.names()) if nodes is None else nodes
        others = within.difference(*domains.values())
        while domains and (waiting := gang.waiting(order)):
            missing = gang.most - gang.served
            values, pods = self.ranked(domains, gang.kinds(waiting), missing)[0]
            if not pods or not missing:
                break
            yield from self._spread(waiting, domains.pop(values), closer[:-1])
        if others and (waiting := gang.waiting(order)):
            yield from gang.fill(waiting, others)
