"""Every Event of preemption, one function each, with a fixed reason.

Of an object in another namespace only kind and priority are named: its name is its tenant's business. The operator's log
names all.
"""

from collections.abc import Collection, Iterable, Mapping

from apportion.cluster.kinds import CLAIMS, PODS
from apportion.cluster.recorder import About, Recorder
from apportion.dra.pod import Pod
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.evictor import NO_RIGHT, Refused


def preempting(
    recorder: Recorder, demand: WaitingDemand, victims: Iterable[Pod], nodes: Collection[str], quota: str
) -> None:
    """Pods are evicted for the demand, which gets devices of these nodes; `quota`: that guarantees it what others have borrowed, if that is why."""
    pods = list(victims)
    own = sorted(pod.name for pod in pods if pod.namespace == demand.claims[0].namespace)
    theirs = len(pods) - len(own)
    named = [*own, *([f"{theirs} of other namespaces"] if theirs else [])]
    priority = max((pod.priority for pod in pods), default=0)
    where = f"node {min(nodes)}" if len(nodes) == 1 else f"{len(nodes)} nodes"
    text = (
        f"evicting {len(pods)} pod{'s' if len(pods) != 1 else ''} of priority {priority} or lower on {where}"
        f" ({', '.join(named)}); this pod has priority {demand.priority}, and the devices are kept for it"
    )
    if quota:
        text += f": AcceleratorQuota {quota} guarantees them"
    _about(recorder, demand, "Preempting", text)


def preempted(recorder: Recorder, victim: Pod, demand: WaitingDemand, borrower: str) -> None:
    """A pod was evicted for the demand; `borrower`: its quota, if that had borrowed what is guaranteed to the demand."""
    claim = demand.claims[0]
    who = f"claim {claim.name}" if claim.namespace == victim.namespace else "a claim of another namespace"
    text = (
        f"evicted, because its devices are needed for {who} of priority {demand.priority}; this pod has priority"
        f" {victim.priority}"
    )
    if borrower:
        text = (
            f"evicted, because its devices are guaranteed to {who}: AcceleratorQuota {borrower} has more than is"
            " guaranteed to it"
        )
    recorder.warning(_pod(victim), "Preempted", text)


def blocked(recorder: Recorder, demand: WaitingDemand, refused: Refused) -> None:
    """A pod may not be evicted for the demand now."""
    victim = refused.pod
    if victim.namespace == demand.claims[0].namespace:
        text = f"pod {victim.name} is not evicted: {refused.reason}"
    else:
        why = NO_RIGHT if refused.forbidden else "a PodDisruptionBudget or the API server forbids it now"
        text = f"a pod of priority {victim.priority} in another namespace is not evicted: {why}"
    _about(recorder, demand, "PreemptionBlocked", text)


def not_taken_back(recorder: Recorder, demand: WaitingDemand, left_alone: Mapping[str, int]) -> None:
    """Nobody is evicted for what is guaranteed; `left_alone`: why pods stay that have borrowed, with their number."""
    if left_alone:
        rows = "; ".join(f"{count}: {why}" for why, count in sorted(left_alone.items()))
        text = f"what is guaranteed is not taken back now: pods that have borrowed it stay ({rows})"
        _about(recorder, demand, "PreemptionBlocked", text)


def in_vain(recorder: Recorder, demand: WaitingDemand, seconds: float) -> None:
    """Pods were evicted, and the demand was not served."""
    text = (
        "pods were evicted for this, and it could not be served all the same; for its namespace nobody is evicted for"
        f" {seconds:.0f} s"
    )
    _about(recorder, demand, "PreemptionInVain", text)


def _about(recorder: Recorder, demand: WaitingDemand, reason: str, text: str) -> None:
    for claim in demand.claims:
        recorder.warning(About(CLAIMS, claim.name, claim.uid, claim.namespace), reason, text)
    for pod in demand.pods:
        recorder.warning(_pod(pod), reason, text)


def _pod(pod: Pod) -> About:
    return About(PODS, pod.name, pod.uid, pod.namespace)
