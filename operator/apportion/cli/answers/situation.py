"""Situation: how a claim or a pod is: served, waiting, or nothing that anybody will serve as it is.

In: a world, the name of a claim or pod. Out: the demand that waits, or the claims that are served, or why there is neither.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from apportion.api.contract import GATE
from apportion.cli.answers.decisions import Decisions, Reason
from apportion.cli.answers.gated import kept_gate
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.demands.groups import group_of
from apportion.scheduling.demands.waiting import UnservablePod, WaitingDemand, has_devices, immediate, ready
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.events.events import no_class


@dataclass(frozen=True, slots=True)
class Situation:
    """One of `demand`, `reason` and served claims."""

    claims: tuple[Claim, ...]
    """Those that were asked about; where neither demand nor reason is given they have their devices."""
    demand: WaitingDemand | None = None
    reason: Reason | None = None


def claim_situation(snapshot: Snapshot, decisions: Decisions, claim: Claim) -> Situation:
    """Return how a claim is."""
    if claim.allocation is not None:
        return Situation((claim,))
    return _waiting(snapshot, decisions, (claim,), None)


def pod_situation(snapshot: Snapshot, decisions: Decisions, pod: Pod) -> Situation:
    """Return how a pod is."""
    left = decisions.left(pod)
    if not pod.claims:
        return Situation(
            (), reason=left or Reason("NoClaims", "it names no claims: kube-scheduler alone decides about it")
        )
    others = [gate for gate in pod.gates if gate != GATE]
    if others:
        text = f"spec.schedulingGates: {', '.join(others)} must go first; then it is apportion's turn"
        return Situation((), reason=Reason("OtherGates", text))
    found = []
    for entry in pod.claims:
        if entry.needless:
            continue
        claim = snapshot.claim(pod.namespace, entry.claim) if entry.claim else None
        if claim is None and (pod.finished or pod.deleting):
            over = "has ended" if pod.finished else "is being deleted"
            text = f"pod {pod.key} {over}, and its claim for {entry.name} is gone"
            return Situation((), reason=Reason("NotReady", text))
        if claim is None:
            what = (
                f"ResourceClaim {pod.namespace}/{entry.claim} does not exist"
                if entry.claim
                else f"controller-manager has made no claim of ResourceClaimTemplate {entry.template} yet"
            )
            return Situation((), reason=Reason("NoClaim", f"spec.resourceClaims: {entry.name}: {what}"))
        found.append(claim)
    if all(has_devices(claim, snapshot) for claim in found):
        kept = kept_gate(snapshot, decisions, pod) or left
        if kept is not None or all(claim.allocation is not None for claim in found):
            return Situation(tuple(found), reason=kept)
    return _waiting(snapshot, decisions, [claim for claim in found if claim.allocation is None], pod)


def waiting_demand(snapshot: Snapshot, former: WaitingDemand) -> WaitingDemand | None:
    """Return the demand of the same claims as it is now; None: they wait no longer."""
    uids = {claim.uid for claim in former.claims}
    return next(
        (each for each in waiting_demands(snapshot)[0] if uids & {claim.uid for claim in each.claims}), None
    )


def _waiting(snapshot: Snapshot, decisions: Decisions, claims: Iterable[Claim], pod: Pod | None) -> Situation:
    claims = tuple(claims)
    uids = {claim.uid for claim in claims}
    for demand in decisions.waiting:
        if any(claim.uid in uids for claim in demand.claims) and (pod is None or pod in demand.pods):
            reason = next(_groups_waiting(demand, snapshot), None)
            return Situation(claims, demand) if reason is None else Situation(claims, reason=reason)
    pods = {each.uid for claim in claims for each in snapshot.users(claim)} if pod is None else {pod.uid}
    for found in decisions.unserved:
        about = found.pod.uid in pods if isinstance(found, UnservablePod) else found.claim.uid in uids
        if about:
            return Situation(claims, reason=decisions.unservable(found))
    return Situation(claims, reason=_left_alone(snapshot, decisions, claims[0]))


def _groups_waiting(demand: WaitingDemand, snapshot: Snapshot) -> Iterator[Reason]:
    """Yield why groups of a demand's pods wait as a whole, whatever is free."""
    for pod in demand.pods:
        group = group_of(pod, snapshot)
        if group is not None and group.flaw:
            yield Reason("BrokenGroup", f"group {group.key} waits: {group.flaw}")
        elif group is not None and len(group.pods) < group.least:
            text = f"group {group.key} has {len(group.pods)} of at least {group.least} pods"
            yield Reason("GroupIncomplete", text)


def _left_alone(snapshot: Snapshot, decisions: Decisions, claim: Claim) -> Reason:
    """Return why a claim is no demand."""
    broken = snapshot.broken.get(claim.uid)
    if broken is not None:
        return Reason("Unreadable", str(broken.error))
    if claim.deleting:
        return Reason("Deleting", f"claim {claim.key} is being deleted")
    unknown = snapshot.managed.unknown(claim)
    if unknown:
        return Reason("UnknownClass", no_class(unknown, snapshot.managed.known))
    if not snapshot.managed.owns(claim):
        names = ", ".join(sorted(claim.classes))
        return decisions.unmanaged(claim) or Reason(
            "NotManaged",
            f"apportion does not manage DeviceClass {names}: kube-scheduler allocates its devices",
        )
    users = [*snapshot.users(claim)]
    if not users and not immediate(claim):
        return Reason("NoPod", f"no pod names claim {claim.key}, and it has no annotation {GATE}: Immediate")
    unready = [pod.key for pod in users if not ready(pod)]
    return Reason(
        "NotReady",
        f"pod {', '.join(unready)} has other scheduling gates, has ended or is being deleted"
        if unready
        else "another claim of its pod is missing or cannot be served",
    )
