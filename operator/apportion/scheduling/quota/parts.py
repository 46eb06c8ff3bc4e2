"""Parts: of pods that share claims, as many as a limit leaves.

In: a demand beyond its limit, the use of its quota. Out: smaller demands, the one with the most pods first; the oldest pods stay, but for those that exceed it alone.
A demand of which nothing is left is looked at anew after the use of its quota changed.
"""

import math
from bisect import bisect_left
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.quota.use import QuotaUse
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.pace import Pace

_FEWER = 8
"""Of this many pods the next part has one less: each part is asked about."""


class _Answer(NamedTuple):
    """Whether the limits leave some of a demand's pods, and by what that was found."""

    demand: WaitingDemand
    use: QuotaUse
    version: int
    shares: bool
    some: bool


class Parts:
    """Remembers of which demands the limits leave a part."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._known: dict[str, _Answer] = {}
        """By key of the demand."""

    def forget(self, key: str) -> None:
        """Forget a demand (key)."""
        self._known.pop(key, None)

    def are_left(self, demand: WaitingDemand, use: QuotaUse, *, shares: bool) -> Generator[None, None, bool]:
        """Say whether there are any; yields where others may run. `shares`: some devices give shares."""
        seen, known = (demand, use, use.version, shares), self._known.get(demand.key)
        if known is None or known.demand is not demand or known[1:4] != seen[1:]:
            parts = yield from parts_within(demand, use, self._snapshot, shares=shares)
            known = self._known[demand.key] = _Answer(*seen, next(parts, None) is not None)
        return known.some


def parts_within(
    demand: WaitingDemand, use: QuotaUse, snapshot: Snapshot, *, shares: bool
) -> Generator[None, None, Iterator[WaitingDemand]]:
    """Return demands of fewer pods, with the claims that these name, which may be within the limits. Pods that have a node stay.

    Yields where others may run: 256 pods may name 64 claims each.
    """
    pairs = [*zip(demand.claims, demand.asked, strict=True)]
    yield from use.bounds.steps(demand.asked, shares=shares)
    rows = {claim.uid: use.bounds.of(asked, shares=shares).least for claim, asked in pairs}
    named_by = yield from _named_by(demand, snapshot)
    placed = [pod for pod in demand.pods if pod.node is not None]
    here = frozenset[str]().union(*(named_by[pod.uid] for pod in placed))

    def takes_too_much(claims: Iterable[str]) -> bool:
        columns = zip(*(rows[uid] for uid in claims), strict=True)
        return use.excess([sum(column) for column in columns] or [0] * len(use.resources)) is not None

    unplaced, others = [pod for pod in demand.pods if pod.node is None], list[Pod]()
    pace, known = Pace(), dict[frozenset[str], bool]()
    for pod in unplaced:
        own = (here | named_by[pod.uid]).intersection(rows)
        if own not in known:
            if pace.rests(1 + len(own)):
                yield
            known[own] = takes_too_much(own)
        if not known[own]:
            others.append(pod)
    others.sort(key=lambda pod: (pod.created, pod.uid))
    first_named = dict.fromkeys(here, 0)
    """By claim (UID): with how many of the others it is named."""
    for count, pod in enumerate(others, start=1):
        for uid in named_by[pod.uid]:
            first_named.setdefault(uid, count)

    def of(count: int) -> list[tuple[Claim, Claim]]:
        return [pair for pair in pairs if first_named.get(pair[0].uid, math.inf) <= count]

    def exceeds(count: int) -> bool:
        return takes_too_much(claim.uid for claim, _ in of(count))

    def parts() -> Iterator[WaitingDemand]:
        most = min(len(others), len(unplaced) - 1)
        count = bisect_left(range(most + 1), x=True, key=exceeds) - 1
        while count >= 0:
            if found := of(count):
                yield replace(
                    demand,
                    claims=tuple(claim for claim, _ in found),
                    asked=tuple(asked for _, asked in found),
                    pods=tuple(sorted((*placed, *others[:count]), key=lambda pod: pod.uid)),
                    tied=tuple(
                        claim for claim in demand.tied if first_named.get(claim.uid, math.inf) <= count
                    ),
                )
            count -= max(1, count // _FEWER)

    return parts()


def _named_by(
    demand: WaitingDemand, snapshot: Snapshot
) -> Generator[None, None, Mapping[str, frozenset[str]]]:
    """Return the claims (UIDs) that each pod (by UID) names."""
    pace, found = Pace(), dict[str, frozenset[str]]()
    for pod in demand.pods:
        if pace.rests(1 + len(pod.claims)):
            yield
        found[pod.uid] = frozenset(claim.uid for claim in snapshot.named_claims(pod) if claim is not None)
    return found
