"""Events about pods and claims that wait for others: for kube-scheduler, a device plugin, an autoscaler; one function each, with a fixed reason."""

from collections.abc import Iterable

from apportion.api.contract import GUARD, MANAGED
from apportion.cluster.recorder import Recorder
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.demands.extendedresources import LeftPod
from apportion.scheduling.demands.guardedclaims import GuardedClaim
from apportion.scheduling.events.events import about_claim, about_pod


def extended_resource(recorder: Recorder, left: LeftPod) -> None:
    """The pod asks for an extended resource of our devices, which kube-scheduler may not choose."""
    text = (
        f"spec.containers: {left.resource} is DeviceClass {left.device_class}, whose devices apportion allocates: kube-scheduler"
        " cannot choose them"
    )
    if left.plugins:
        text += (
            f", and only the {left.plugins} nodes whose device plugin offers the resource can take this pod"
        )
    component = "manifests/components/extended-resources"
    claims = f"write claims: `apportion migrate -n {left.pod.namespace}` prints them"
    if left.unchanged:
        text += f". {component} leaves such a pod as it is, because {left.unchanged}; {claims}"
    else:
        if not left.labelled:
            text += f". Give the class the label {MANAGED}=true"
        text += (
            f". Make the pod anew in a namespace with the label {MANAGED}=true, where {component} has such pods ask for claims, or"
            f" {claims}"
        )
    recorder.warning(about_pod(left.pod), "ExtendedResource", text)


def unmanaged_class(recorder: Recorder, found: GuardedClaim) -> None:
    """The claim waits for kube-scheduler, which may not choose the devices that its class selects."""
    text = (
        f"claim {found.claim.key}: DeviceClass {', '.join(found.classes)} selects devices that apportion guards (taint {GUARD}),"
        f" and is not managed, so nobody allocates them: give the class the label {MANAGED}=true, or name it in an AllocationPolicy"
    )
    for about in (about_claim(found.claim), *map(about_pod, found.pods)):
        recorder.warning(about, "UnmanagedClass", text)


def partition_not_cut(recorder: Recorder, claim: Claim, device: DeviceId, pods: Iterable[Pod]) -> None:
    """The claim looks at a partition that is not there, and that its pods wait for."""
    text = (
        f"claim {claim.key}: status.allocation: nobody has partition {device}, and for a claim with admin access none is cut: its pods"
        " stay behind their gates until a claim without admin access gets the partition. Select devices that are in use, or whole cards"
    )
    for about in (about_claim(claim), *map(about_pod, pods)):
        recorder.warning(about, "PartitionNotCut", text)


def shown_to_autoscalers(recorder: Recorder, pod: Pod, why: str) -> None:
    """The pod waits for a node that is not there."""
    recorder.warning(about_pod(pod), "ShownToAutoscalers", why)
