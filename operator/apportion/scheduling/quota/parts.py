"""Parts: of pods that share claims, as many as a limit leaves.

In: a demand beyond its limit, the use of its quota. Out: smaller demands, the one with the most pods first; the oldest pods stay.
"""

from collections.abc import Iterator
from dataclasses import replace

from apportion.cluster.snapshot import Snapshot
from apportion.quota.least import least
from apportion.quota.use import QuotaUse
from apportion.scheduling.waiting import WaitingDemand


def parts_within(
    demand: WaitingDemand, use: QuotaUse, snapshot: Snapshot, *, shares: bool
) -> Iterator[WaitingDemand]:
    """Yield demands of fewer pods, with the claims that these name, which may be within the limits. Pods that have a node stay."""
    placed = [pod for pod in demand.pods if pod.node is not None]
    others = sorted((pod for pod in demand.pods if pod.node is None), key=lambda pod: (pod.created, pod.uid))
    for count in range(len(others) - 1, -1, -1):
        pods = (*placed, *others[:count])
        named = {claim.uid for pod in pods for claim in snapshot.named_claims(pod) if claim is not None}
        rows = [pair for pair in zip(demand.claims, demand.asked, strict=True) if pair[0].uid in named]
        if rows and use.excess(least([asked for _, asked in rows], use, shares=shares)) is None:
            yield replace(
                demand,
                claims=tuple(claim for claim, _ in rows),
                asked=tuple(asked for _, asked in rows),
                pods=tuple(sorted(pods, key=lambda pod: pod.uid)),
                tied=tuple(claim for claim in demand.tied if claim.uid in named),
            )
