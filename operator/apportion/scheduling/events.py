"""Every Event of the scheduling cycle, one function each, with a fixed reason."""

import re
from collections.abc import Iterable

from apportion.allocator.explain.explanation import Explanation
from apportion.allocator.explain.render import summary
from apportion.allocator.facts.inventory import Finding
from apportion.allocator.gang.members import DomainShortage
from apportion.cluster.kinds import CLAIMS, PODS, SLICES
from apportion.cluster.objectstore import BrokenObject
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.groupmembership import LEAST, MOST
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput
from apportion.scheduling.groups import CrossGroupDemand, PodGroupState, WaitingGroup
from apportion.scheduling.waiting import (
    RefusedConfiguration,
    UnknownClasses,
    UnknownScheduler,
    Unservable,
    WaitingDemand,
)

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def about_claim(claim: Claim) -> About:
    """Return what an Event about a claim is about."""
    return About(CLAIMS, claim.name, claim.uid, claim.namespace)


def about_pod(pod: Pod) -> About:
    """Return what an Event about a pod is about."""
    return About(PODS, pod.name, pod.uid, pod.namespace)


def allocated(recorder: Recorder, claim: Claim, allocation: Allocation, pods: Iterable[Pod]) -> None:
    """The claim has its devices, which ends what was to be said about it and its waiting pods.

    An Event says so only after one that said that it waits: the claim's status has the devices, and each Event is a write.
    """
    for about in (about_claim(claim), *map(about_pod, pods)):
        recorder.withdraw(about)
    if any(recorder.has_written(about_claim(claim), reason) for reason in ("NotAllocated", "ExceedsLimit")):
        devices = ", ".join(str(result.device) for result in allocation.results)
        recorder.normal(about_claim(claim), "Allocated", f"allocated {devices}")


def not_allocated(recorder: Recorder, demand: WaitingDemand, text: str) -> None:
    """The demand cannot be served now, for the reason in the text."""
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "NotAllocated", text)
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def refused(
    recorder: Recorder, demand: WaitingDemand, explanation: Explanation, snapshot: Snapshot, note: str = ""
) -> None:
    """No node can serve the demand now; the text says why, with claims by name instead of UID, and ends with the note."""

    def named(uid: re.Match[str]) -> str:
        claim = snapshot.claims.get(uid[0])
        return f"claim {claim.key}" if claim is not None else uid[0]

    not_allocated(recorder, demand, _UID.sub(named, summary(explanation)) + note)


def broken(recorder: Recorder, demand: WaitingDemand, error: BrokenInput) -> None:
    """The demand can never be served as it is written."""
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "BrokenClaim", f"claim {claim.key} cannot be allocated: {error}")
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "BrokenClaim", str(error))


def costly(recorder: Recorder, demand: WaitingDemand, error: BrokenInput) -> None:
    """The demand's selectors cost more than one claim may spend."""
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "CostlySelector", f"claim {claim.key} is not allocated: {error}")
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "CostlySelector", str(error))


def defect(recorder: Recorder, demands: Iterable[WaitingDemand]) -> None:
    """Deciding failed with an unexpected exception."""
    text = "apportion failed to decide about this, which is a defect of its own; the operator's log says more"
    for demand in demands:
        for about in (*map(about_claim, demand.claims), *map(about_pod, demand.pods)):
            recorder.warning(about, "Defect", text)


def unservable(recorder: Recorder, found: Unservable) -> None:
    """The claim or pod cannot be served as it is."""
    if isinstance(found, UnknownScheduler):
        text = (
            f"spec.schedulerName: devices are given to pods of {', '.join(sorted(found.known))} only, and this one is"
            f" left to {found.pod.scheduler}; the operator's option --schedulers names those that are served"
        )
        recorder.warning(about_pod(found.pod), "UnknownScheduler", text)
        return
    if isinstance(found, RefusedConfiguration):
        recorder.warning(
            about_claim(found.claim), "RefusedConfiguration", f"claim {found.claim.key}: {found.error}"
        )
        for pod in found.pods:
            recorder.warning(
                about_pod(pod), "RefusedConfiguration", f"claim {found.claim.key}: {found.error}"
            )
        return
    if isinstance(found, UnknownClasses):
        reason = "UnknownClass"
        text = f"spec.devices.requests: DeviceClass {', '.join(sorted(found.classes))} does not exist"
    else:
        reason = "MixedClasses"
        text = (
            f"spec.devices.requests names DeviceClasses that apportion manages ({', '.join(sorted(found.managed))})"
            f" and others ({', '.join(sorted(found.others))}); nobody can allocate both kinds in one claim: split it"
        )
    recorder.warning(about_claim(found.claim), reason, f"claim {found.claim.key}: {text}")


def foreign(recorder: Recorder, claim: Claim) -> None:
    """Another allocator allocated a managed device."""
    recorder.warning(
        about_claim(claim),
        "ForeignAllocation",
        f"allocated by {claim.allocated_by or 'an unknown writer'}, past the guard taint (a toleration without a key"
        " opens it); the devices are counted and served",
    )


def overlap_cleared(recorder: Recorder, claim: Claim, what: str) -> None:
    """An allocation overlapped another and is cleared."""
    recorder.warning(
        about_claim(claim), "Overlap", f"{what} is allocated twice; this allocation was given back"
    )


def overlap_stuck(recorder: Recorder, claims: tuple[Claim, ...], what: str) -> None:
    """Reserved allocations overlap; the node will refuse the later ones."""
    names = ", ".join(claim.key for claim in claims)
    for claim in claims:
        recorder.warning(
            about_claim(claim),
            "Overlap",
            f"{what} is allocated to {names}, all of them reserved: the node prepares only the first; delete the"
            " pods of the others",
        )


def given_back(recorder: Recorder, claim: Claim, reason: str) -> None:
    """An allocation was cleared."""
    recorder.normal(about_claim(claim), "GivenBack", reason)


def claim_ended(recorder: Recorder, pod: Pod, claim: Claim) -> None:
    """The pod runs with devices that its claim has no more."""
    devices = ", ".join(str(result.device) for result in claim.allocation.results) if claim.allocation else ""
    recorder.warning(
        about_pod(pod),
        "ClaimEnded",
        f"ResourceClaim {claim.key} was deleted or deallocated while this pod uses its devices ({devices}); nobody else is given"
        " them until the pod has ended",
    )


def node_refused(recorder: Recorder, pod: Pod, node: str, seconds: float) -> None:
    """kube-scheduler refused our node for the pod."""
    recorder.normal(
        about_pod(pod),
        "NodeRefused",
        f"kube-scheduler did not accept node {node} and took the allocation back; looking elsewhere, {node} is left"
        f" out for {seconds:.0f} s or until it changes",
    )


def unreadable(recorder: Recorder, found: BrokenObject) -> None:
    """An object cannot be read."""
    effect = "is left out" if found.left_out else "counts as far as it can be read, else as it was read last"
    recorder.warning(
        About(found.kind, found.name, found.uid, found.namespace),
        "Unreadable",
        f"{found.kind.name} {found.name} {effect}: {found.error}",
    )


def policy_unreadable(recorder: Recorder, pod: Pod, policies: str) -> None:
    """Nobody knows whether the pod's claims are ours."""
    recorder.warning(
        about_pod(pod),
        "PolicyUnreadable",
        f"AllocationPolicy {policies}: spec.deviceClasses cannot be read and may cover the classes of this pod's claims; the pod"
        " stays behind its gate until the policy is repaired or deleted",
    )


def network_taken(recorder: Recorder, pod: Pod, claim: Claim, other: Pod) -> None:
    """The pod waits for the end of another one."""
    recorder.warning(
        about_pod(pod),
        "NetworkDeviceTaken",
        f"claim {claim.key}: spec.devices.config asks for a network device, which is in the network of one pod, and Pod"
        f" {other.name} has it; this pod waits for that one's end. Pods with a ResourceClaimTemplate have a claim each",
    )


def broken_pool(recorder: Recorder, finding: Finding, snapshot: Snapshot) -> None:
    """A pool's slices contradict each other; its devices are not allocated."""
    for found in snapshot.slices.values():
        if finding.object.startswith(f"pool {found.pool}"):
            text = f"ResourceSlice {found.name}: {finding.field}: {finding.reason}"
            recorder.warning(About(SLICES, found.name, found.uid), "BrokenPool", text)


def write_failed(recorder: Recorder, claim: Claim, error: ApiError) -> None:
    """The API server refused an allocation."""
    recorder.warning(about_claim(claim), "WriteFailed", f"the allocation could not be written: {error}")


def group_broken(recorder: Recorder, group: PodGroupState) -> None:
    """The pods' labels and annotations about their group are wrong or disagree."""
    for pod in group.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", f"group {group.key} waits: {group.flaw}")


def group_incomplete(recorder: Recorder, group: WaitingGroup) -> None:
    """Fewer pods are ready than the group needs."""
    state, ready = group.pod_group, len(group.pods) + group.served
    text = f"group {state.key} waits for pods: {ready} of at least {state.least} are ready"
    if len(state.pods) > ready:
        text += f"; {len(state.pods) - ready} more exist behind other gates, or their claims cannot be served"
    if len(state.pods) == 1 and (alone := state.pods[0].group) is not None and alone.leader:
        text += (
            ". With spec.startupPolicy: LeaderReady its LeaderWorkerSet makes the workers only when the leader runs: the annotation"
            f' {LEAST}: "1" at spec.leaderWorkerTemplate.leaderTemplate lets the leader have its devices first, and its workers have'
            " theirs together"
        )
    for pod in state.pods:
        if pod.node is None:
            recorder.warning(about_pod(pod), "GroupIncomplete", text)


def group_blocked(
    recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, served: int, blocked: WaitingDemand
) -> None:
    """Another pod of the group cannot be served, so this demand is not either."""
    not_allocated(
        recorder,
        demand,
        f"group {group.pod_group.key} needs devices for {group.enough} of its waiting pods together, and there are"
        f" devices for {served}; {', '.join(pod.name for pod in blocked.pods)} found none",
    )


def group_too_large(
    recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, needed: int, free: int
) -> None:
    """The group needs more devices than are free."""
    text = (
        f"group {group.pod_group.key} needs {needed} devices for {group.enough} of its waiting pods together, and"
        f" {free} that some of them could use are free"
    )
    not_allocated(recorder, demand, text)


def group_domain(
    recorder: Recorder, group: WaitingGroup, demand: WaitingDemand, found: DomainShortage
) -> None:
    """No domain has room for enough pods of the group, which have to be in one."""
    best = (
        f"; {', '.join(found.domain)} has the most, for {found.room}" if found.domain else "; no node has it"
    )
    not_allocated(
        recorder,
        demand,
        f"group {group.pod_group.key} needs devices for {group.enough} of its waiting pods on nodes with one value of"
        f" {', '.join(found.labels)}, and no value has room for so many{best}",
    )


def group_without(recorder: Recorder, group: WaitingGroup, demand: WaitingDemand) -> None:
    """Enough other pods of the group are served; this demand goes on waiting."""
    state = group.pod_group
    text = (
        f"group {state.key} has the {state.least} pods that it needs; there are no devices for this one yet"
    )
    if group.more is not None and group.more < len(group.pods):
        text = f"group {state.key} may have devices for {state.most} pods at once ({MOST}); this one waits for another's end"
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def cross_group(recorder: Recorder, found: CrossGroupDemand) -> None:
    """A claim joins pods of several groups."""
    text = f"its claims join pods of several groups ({', '.join(found.groups)}), so none of them can be served as a whole"
    for pod in found.demand.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", text)
