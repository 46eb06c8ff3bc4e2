"""Claims for one pod: a network device is in the network of one pod, so the others that name its claim wait for it.

In: the snapshot. Out: the pod that a gated pod waits for. Where no gate is, the agent refuses the second pod's containers.
"""

from collections.abc import Callable

from apportion.api.claimconfig import asks_for_network
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod


def taken(pod: Pod, snapshot: Snapshot, opening: Callable[[str], bool]) -> tuple[Claim, Pod] | None:
    """Return a claim of the pod whose network device another pod has, or is about to have, and that pod.

    `opening` says of which pods (UIDs) the gate is being removed. A pod has it until it is finished or gone.
    """
    for claim in snapshot.named_claims(pod):
        entries = claim.allocation.config if claim is not None and claim.allocation is not None else ()
        if claim is None or not any(asks_for_network(entry, snapshot.drivers) for entry in entries):
            continue
        reserved = {user.uid for user in claim.reserved_for}
        for other in snapshot.users(claim):
            started = other.uid in reserved or opening(other.uid) or GATE not in other.gates
            gone = other.finished or (other.deleting and other.node is None)
            if other.uid != pod.uid and started and not gone:
                return claim, other
    return None
