"""Claims for one pod: a network device is in the network of one pod, so the others that name its claim wait for it.

In: the snapshot. Out: the pod that a gated pod waits for. Where no gate is, the agent refuses the second pod's containers.
"""

from collections.abc import Callable
from itertools import islice

from apportion.api.claimconfig import asks_for_network
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod


class OnePod:
    """Who has which network device, all in one look: it is found out once for a claim, however many pods name it."""

    def __init__(self, snapshot: Snapshot, ungating: Callable[[str], bool]) -> None:
        """`ungating` says of which pods (UIDs) the gate is being removed."""
        self._snapshot = snapshot
        self._ungating = ungating
        self._started: dict[str, list[Pod]] = {}
        """By claim (UID): pods that have its network device, or are about to have it; two at most, because one may ask."""

    def taken(self, pod: Pod) -> tuple[Claim, Pod] | None:
        """Return a claim of the pod whose network device another pod has, or is about to have, and that pod. It has it until it is finished or gone."""
        for claim in self._of_network(pod):
            for other in self._having(claim):
                if other.uid != pod.uid:
                    return claim, other
        return None

    def open(self, pod: Pod) -> None:
        """Take note that the gate of a pod will be removed."""
        for claim in self._of_network(pod):
            self._having(claim).append(pod)

    def _of_network(self, pod: Pod) -> list[Claim]:
        drivers = self._snapshot.drivers
        return [
            claim
            for claim in self._snapshot.named_claims(pod)
            if claim is not None
            and claim.allocation is not None
            and any(asks_for_network(entry, drivers) for entry in claim.allocation.config)
        ]

    def _having(self, claim: Claim) -> list[Pod]:
        if claim.uid not in self._started:
            reserved = {user.uid for user in claim.reserved_for}
            having = (
                pod
                for pod in self._snapshot.users(claim)
                if (pod.uid in reserved or self._ungating(pod.uid) or GATE not in pod.gates)
                and not (pod.finished or (pod.deleting and pod.node is None))
            )
            self._started[claim.uid] = [*islice(having, 2)]
        return self._started[claim.uid]
