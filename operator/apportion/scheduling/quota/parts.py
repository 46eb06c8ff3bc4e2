"""Parts: of pods that share claims, as many as a limit leaves.

In: a demand beyond its limit, the use of its quota. Out: smaller demands, the one with the most pods first; the oldest pods stay, but for those that exceed it alone.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.quota.least import least
from apportion.quota.use import QuotaUse
from apportion.scheduling.waiting import WaitingDemand

_FEWER = 8
"""Of this many pods the next part has one less: each part is asked about."""


def parts_within(
    demand: WaitingDemand, use: QuotaUse, snapshot: Snapshot, *, shares: bool
) -> Iterator[WaitingDemand]:
    """Yield demands of fewer pods, with the claims that these name, which may be within the limits. Pods that have a node stay."""
    placed = [pod for pod in demand.pods if pod.node is not None]
    pairs = [*zip(demand.claims, demand.asked, strict=True)]

    def takes_too_much(claims: Sequence[Claim]) -> bool:
        return use.excess(least(claims, use, shares=shares)) is not None

    def fits_alone(pod: Pod) -> bool:
        own = {claim.uid for each in (*placed, pod) for claim in snapshot.named_claims(each) if claim}
        return not takes_too_much([asked for claim, asked in pairs if claim.uid in own])

    unplaced = [pod for pod in demand.pods if pod.node is None]
    others = sorted(filter(fits_alone, unplaced), key=lambda pod: (pod.created, pod.uid))
    most = min(len(others), len(unplaced) - 1)
    named: dict[str, int] = {}
    """By claim (UID): with how many of the others it is named."""
    for count, pod in chain(((0, pod) for pod in placed), enumerate(others, start=1)):
        for claim in snapshot.named_claims(pod):
            if claim is not None:
                named.setdefault(claim.uid, count)

    def of(count: int) -> list[tuple[Claim, Claim]]:
        return [pair for pair in pairs if named.get(pair[0].uid, math.inf) <= count]

    def exceeds(count: int) -> bool:
        return takes_too_much([asked for _, asked in of(count)])

    count = bisect_left(range(most + 1), x=True, key=exceeds) - 1
    while count >= 0:
        if rows := of(count):
            yield replace(
                demand,
                claims=tuple(claim for claim, _ in rows),
                asked=tuple(asked for _, asked in rows),
                pods=tuple(sorted((*placed, *others[:count]), key=lambda pod: pod.uid)),
                tied=tuple(claim for claim in demand.tied if named.get(claim.uid, math.inf) <= count),
            )
        count -= max(1, count // _FEWER)
