"""Notices: every Event of the scheduling cycle, one function each, with a fixed reason."""

import re
from collections.abc import Callable, Iterable

from apportion.allocator.explain.explanation import Explanation
from apportion.allocator.explain.render import summary
from apportion.allocator.facts.inventory import Finding
from apportion.cluster.broken import Broken
from apportion.cluster.kinds import CLAIMS, PODS, SLICES
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput
from apportion.scheduling.groups import Group, Joint, Tangled
from apportion.scheduling.waiting import Mixed, Unknown, Waiting

_UID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def about_claim(claim: Claim) -> About:
    """Name a claim."""
    return About(CLAIMS, claim.name, claim.uid, claim.namespace)


def about_pod(pod: Pod) -> About:
    """Name a pod."""
    return About(PODS, pod.name, pod.uid, pod.namespace)


def allocated(recorder: Recorder, claim: Claim, allocation: Allocation) -> None:
    """The claim has its devices."""
    devices = ", ".join(str(result.device) for result in allocation.results)
    recorder.normal(about_claim(claim), "Allocated", f"allocated {devices}")


def refused(
    recorder: Recorder, demand: Waiting, explanation: Explanation, named: Callable[[str], str]
) -> None:
    """No node can serve the demand now; says what stood in the way. `named` gives a claim's name for its UID."""
    text = _UID.sub(lambda uid: named(uid[0]), summary(explanation))
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "NotAllocated", text)
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def no_node(recorder: Recorder, demand: Waiting, text: str) -> None:
    """No node could take the pods, whatever their devices."""
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "NotAllocated", text)
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def broken(recorder: Recorder, demand: Waiting, error: BrokenInput) -> None:
    """The demand can never be served as it is written."""
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "BrokenClaim", f"claim {claim.key} cannot be allocated: {error}")
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "BrokenClaim", str(error))


def defect(recorder: Recorder, demands: Iterable[Waiting]) -> None:
    """Deciding failed in a way that nobody foresaw."""
    text = "apportion failed to decide about this, which is a defect of its own; the operator's log says more"
    for demand in demands:
        for claim in demand.claims:
            recorder.warning(about_claim(claim), "Defect", text)
        for pod in demand.pods:
            recorder.warning(about_pod(pod), "Defect", text)


def hopeless(recorder: Recorder, found: Mixed | Unknown) -> None:
    """Nobody can serve the claim as it is."""
    if isinstance(found, Unknown):
        recorder.warning(
            about_claim(found.claim),
            "UnknownClass",
            f"claim {found.claim.key}: spec.devices.requests: DeviceClass {', '.join(sorted(found.classes))} does not"
            " exist",
        )
        return
    recorder.warning(
        about_claim(found.claim),
        "MixedClasses",
        f"claim {found.claim.key}: spec.devices.requests names DeviceClasses that apportion manages"
        f" ({', '.join(sorted(found.managed))}) and others ({', '.join(sorted(found.others))});"
        " nobody can allocate both kinds in one claim: split it",
    )


def foreign(recorder: Recorder, claim: Claim) -> None:
    """Somebody else allocated a device of ours."""
    recorder.warning(
        about_claim(claim),
        "ForeignAllocation",
        f"allocated by {claim.allocated_by or 'an unknown writer'}, past the guard taint (a toleration without a key"
        " opens it); the devices are counted and served",
    )


def overlap_cleared(recorder: Recorder, claim: Claim, what: str) -> None:
    """An allocation overlapped another and was given back."""
    recorder.warning(
        about_claim(claim), "Overlap", f"{what} is allocated twice; this allocation was given back"
    )


def overlap_stuck(recorder: Recorder, claims: tuple[Claim, ...], what: str) -> None:
    """Two reserved allocations overlap; the node will refuse the later one."""
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


def taken_back(recorder: Recorder, pod: Pod, node: str, seconds: float) -> None:
    """The scheduler refused our node for the pod."""
    recorder.normal(
        about_pod(pod),
        "NodeRefused",
        f"kube-scheduler did not accept node {node} and took the allocation back; looking elsewhere, {node} is left"
        f" out for {seconds:.0f} s or until it changes",
    )


def unreadable(recorder: Recorder, found: Broken) -> None:
    """An object cannot be read."""
    recorder.warning(
        About(found.kind, found.name, found.uid, found.namespace),
        "Unreadable",
        f"{found.kind.name} {found.name} is left out: {found.error}",
    )


def broken_pool(recorder: Recorder, finding: Finding, snapshot: Snapshot) -> None:
    """A pool's slices contradict each other; its devices are not allocated."""
    for found in snapshot.slices.values():
        if finding.object.startswith(f"pool {found.pool}"):
            about = About(SLICES, found.name, found.uid)
            recorder.warning(
                about, "BrokenPool", f"ResourceSlice {found.name}: {finding.field}: {finding.reason}"
            )


def write_failed(recorder: Recorder, claim: Claim, error: ApiError) -> None:
    """The API server refused an allocation."""
    recorder.warning(about_claim(claim), "WriteFailed", f"the allocation could not be written: {error}")


def group_broken(recorder: Recorder, group: Group) -> None:
    """What the pods say of their group makes no sense."""
    for pod in group.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", f"group {group.key} waits: {group.flaw}")


def group_incomplete(recorder: Recorder, joint: Joint) -> None:
    """Too few pods are there."""
    group, ready = joint.group, len(joint.pods) + joint.served
    text = f"group {group.key} waits for pods: {ready} of at least {group.least} are ready"
    if len(group.pods) > ready:
        text += f"; {len(group.pods) - ready} more exist behind other gates, or their claims cannot be served"
    for pod in group.pods:
        if pod.node is None:
            recorder.warning(about_pod(pod), "GroupIncomplete", text)


def held_up(recorder: Recorder, joint: Joint, demand: Waiting, served: int, blocked: Waiting) -> None:
    """Another pod of the group cannot be served."""
    text = (
        f"group {joint.group.key} needs devices for {joint.enough} of its waiting pods together, and there are devices for"
        f" {served}; {', '.join(pod.name for pod in blocked.pods)} found none"
    )
    for claim in demand.claims:
        recorder.warning(about_claim(claim), "NotAllocated", text)
    for pod in demand.pods:
        recorder.warning(about_pod(pod), "ClaimsNotAllocated", text)


def left_out(recorder: Recorder, group: Group, demand: Waiting) -> None:
    """Enough other pods of the group are served; this one waits on."""
    for pod in demand.pods:
        recorder.warning(
            about_pod(pod),
            "ClaimsNotAllocated",
            f"group {group.key} has the {group.least} pods that it needs; there are no devices for this one yet",
        )


def tangled(recorder: Recorder, found: Tangled) -> None:
    """A claim joins pods of several groups."""
    text = f"its claims join pods of several groups ({', '.join(found.groups)}), so none of them can be served as a whole"
    for pod in found.demand.pods:
        recorder.warning(about_pod(pod), "BrokenGroup", text)
