"""Parts: of pods that share claims, as many as a limit leaves.

In: a demand beyond its limit, the use of its quota. Out: smaller demands, the one with the most pods first; the oldest pods stay.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
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
    others = sorted((pod for pod in demand.pods if pod.node is None), key=lambda pod: (pod.created, pod.uid))
    named: dict[str, int] = {}
    """By claim (UID): with how many of the others it is named."""
    for count, pod in chain(((0, pod) for pod in placed), enumerate(others, start=1)):
        for claim in snapshot.named_claims(pod):
            if claim is not None:
                named.setdefault(claim.uid, count)

    def of(count: int) -> list[tuple[Claim, Claim]]:
        pairs = zip(demand.claims, demand.asked, strict=True)
        return [pair for pair in pairs if named.get(pair[0].uid, len(others)) <= count]

    def exceeds(count: int) -> bool:
        return use.excess(least([asked for _, asked in of(count)], use, shares=shares)) is not None

    count = bisect_left(range(len(others)), x=True, key=exceeds) - 1
    while count >= 0:
        if rows := of(count):
            yield replace(
                demand,
                claims=tuple(claim for claim, _ in rows),
                asked=tuple(asked for _, asked in rows),
                pods=tuple(sorted((*placed, *others[:count]), key=lambda pod: pod.uid)),
                tied=tuple(claim for claim in demand.tied if named.get(claim.uid, len(others)) <= count),
            )
        count -= max(1, count // _FEWER)
