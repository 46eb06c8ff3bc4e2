"""Every Event of the scheduling cycle about claims, pods and pools, one function each, with a fixed reason."""

import re
from collections.abc import Iterable

from apportion.allocator.explain.explanation import Explanation
from apportion.allocator.explain.render import summary
from apportion.allocator.facts.inventory import Finding
from apportion.api.meant import meant
from apportion.cluster.kinds import CLAIMS, PODS, SLICES
from apportion.cluster.objectstore import BrokenObject
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput, UnsuitableConfiguration
from apportion.scheduling.demands.waiting import (
    MOST_CLAIMS,
    MOST_KINDS,
    MOST_LOOKS,
    MOST_PODS,
    LeftOut,
    RefusedConfiguration,
    TooManyTerms,
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
    not_allocated(recorder, demand, with_names(summary(explanation), snapshot) + note)


def with_names(text: str, snapshot: Snapshot) -> str:
    """Return a text of the allocator, to which claims are UIDs, with their names."""

    def named(uid: re.Match[str]) -> str:
        claim = snapshot.claims.get(uid[0])
        return f"claim {claim.key}" if claim is not None else uid[0]

    return _UID.sub(named, text)


def broken(recorder: Recorder, demand: WaitingDemand, error: BrokenInput) -> None:
    """The demand can never be served as it is written, or not with the devices that there are."""
    if isinstance(error, UnsuitableConfiguration):
        of_claim = [about_claim(claim) for claim in demand.claims if claim.key == error.claim]
        for about in (*of_claim, *map(about_pod, demand.pods)):
            recorder.warning(about, "RefusedConfiguration", f"claim {error.claim}: {error}")
        return
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


def no_class(missing: Iterable[str], known: frozenset[str]) -> str:
    """Return that DeviceClasses do not exist, with those that were probably meant."""
    return "; ".join(f"DeviceClass {name} does not exist{meant(name, known)}" for name in sorted(missing))


def unservable(recorder: Recorder, found: Unservable) -> None:
    """The claim or pod cannot be served as it is."""
    if isinstance(found, UnknownScheduler):
        text = (
            f"spec.schedulerName: devices are given to pods of {', '.join(sorted(found.known))} only, and this one is"
            f" left to {found.pod.scheduler}; the operator's option --schedulers names those that are served"
        )
        recorder.warning(about_pod(found.pod), "UnknownScheduler", text)
        return
    if isinstance(found, LeftOut):
        recorder.warning(about_pod(found.pod), "TooManyAtOnce", _left_out(found.pod))
        return
    if isinstance(found, TooManyTerms):
        excess = found.excess
        text = f"{excess.field}: these are {excess.count} {excess.what}; a pod with more than {excess.most} is given no devices"
        recorder.warning(about_pod(found.pod), "TooManyTerms", text)
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
        text = f"spec.devices.requests: {no_class(found.classes, found.known)}"
    else:
        reason = "MixedClasses"
        text = (
            f"spec.devices.requests names DeviceClasses that apportion manages ({', '.join(sorted(found.managed))})"
            f" and others ({', '.join(sorted(found.others))}); nobody can allocate both kinds in one claim: split it"
        )
    recorder.warning(about_claim(found.claim), reason, f"claim {found.claim.key}: {text}")


def _left_out(pod: Pod) -> str:
    """Return why a pod is no part of a demand."""
    if (count := len(pod.claims) + pod.unread_claims) > MOST_CLAIMS:
        return (
            f"spec.resourceClaims: these are {count} claims, all of whose devices have to be on one node; a pod is given devices"
            f" for {MOST_CLAIMS} claims at most"
        )
    return (
        f"spec.resourceClaims: its claims, and pods that share them, hang together with more than {MOST_PODS} pods or {MOST_CLAIMS} claims, or with"
        f" pods of more than {MOST_KINDS} kinds by what they ask of their node, or of {MOST_LOOKS} terms of pod affinity and spread (one of spread counts"
        " four times); all of their devices have to be on one node, they are chosen for so many at once, for small pods before large ones, and this"
        " pod waits until those have theirs"
    )


def unknown_metadata(recorder: Recorder, found: Pod | Claim, said: Iterable[str]) -> None:
    """Labels or annotations of ours mean nothing on the object."""
    about = about_pod(found) if isinstance(found, Pod) else about_claim(found)
    recorder.warning(about, "UnknownMetadata", "; ".join(said))


def foreign(recorder: Recorder, claim: Claim) -> None:
    """Another allocator allocated a managed device."""
    recorder.warning(
        about_claim(claim),
        "ForeignAllocation",
        f"allocated by {claim.allocated_by or 'an unknown writer'}, past the guard taint (a toleration of it, or"
        " without a key, opens it); the devices are counted and served",
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


def broken_pool(recorder: Recorder, finding: Finding) -> None:
    """A pool lacks slices, its slices contradict each other, or a device has a negative amount: they are not allocated."""
    for name, uid in finding.slices:
        text = f"ResourceSlice {finding.slice or name}: {finding.field}: {finding.reason}"
        recorder.warning(About(SLICES, name, uid), "BrokenPool", text)


def write_failed(recorder: Recorder, claim: Claim, error: ApiError, what: str = "the allocation") -> None:
    """The API server refused an allocation, or `what` else of a claim was to be written."""
    recorder.warning(about_claim(claim), "WriteFailed", f"{what} could not be written: {error}")


def gate_not_removed(recorder: Recorder, pod: Pod, error: ApiError) -> None:
    """A pod has all of its devices, and the API server refuses to let our gate go, or does not answer."""
    recorder.warning(about_pod(pod), "WriteFailed", f"its scheduling gate could not be removed: {error}")
