"""kept_gate(): why a pod stays behind our gate though its claims have their devices.

In: a snapshot, the pod. Out: the reason, in the words of the operator's Event where there is one; None: it has no gate of ours, or is about to lose it.
"""

from functools import partial

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.api.partition import Phase
from apportion.cli.answers.decisions import Decisions, Reason
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.partitions.claimphase import phase_of
from apportion.scheduling.clearing.clearing import Overlaps
from apportion.scheduling.demands.groups import group_of
from apportion.scheduling.demands.waiting import claims_of
from apportion.scheduling.events import events, unservedevents
from apportion.scheduling.writing.gates import Gates, shut_by_policies

_NOT_READY = "NotReady"


def kept_gate(snapshot: Snapshot, decisions: Decisions, pod: Pod) -> Reason | None:
    """Return why the pod keeps its gate."""
    if GATE not in pod.gates:
        return None
    gates = Gates(snapshot)
    contested = frozenset(claim.uid for found in Overlaps(snapshot).find() for claim in found.claims)
    if pod in finished(gates.open(contested=contested, phase=partial(phase_of, snapshot=snapshot))):
        return None
    for other, unread in shut_by_policies(snapshot):
        if other is pod:
            return decisions.reason_of(partial(events.policy_unreadable, pod=pod, policies=unread))
    for waiting, claim, other in gates.taken:
        if waiting is pod:
            return decisions.reason_of(partial(events.network_taken, pod=pod, claim=claim, other=other))
    claims = claims_of(pod, snapshot) or ()
    for claim in claims:
        if claim.uid in gates.uncut:
            _, device = gates.uncut[claim.uid]
            return decisions.reason_of(
                partial(unservedevents.partition_not_cut, claim=claim, device=device, pods=())
            )
        if claim.uid in gates.awaited:
            text = f"claim {claim.key}: {_cutting(claim, snapshot)}"
            return Reason(_NOT_READY, text)
    group = group_of(pod, snapshot)
    if group is not None:
        text = f"it has its devices, and group {group.key} waits until {group.least} of its pods can start together"
        return Reason(_NOT_READY, text)
    text = (
        "its claims have their devices, and its gate stays: a claim is about to lose its devices or finalizer, has them twice, or is on a node"
        " that has no room for the pod beside those that share the claim"
    )
    return Reason(_NOT_READY, text)


def _cutting(claim: Claim, snapshot: Snapshot) -> str:
    """Return for which partition the pod waits."""
    goes = "the pod's gate goes when it is"
    for result in claim.allocation.results if claim.allocation is not None else ():
        partition = snapshot.devices.partition(result.device, claim.uid)
        if partition is not None and partition.status.phase not in {Phase.READY, Phase.IDLE}:
            return f"Partition {partition.metadata.name} is {partition.status.phase or Phase.PENDING}; {goes} cut"
        for left in snapshot.devices.leaving(result):
            return f"Partition {left.metadata.name} is on its card; {goes} removed"
    return f"its partition is not made yet, or was not handed over yet; {goes} cut"
