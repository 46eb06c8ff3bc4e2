"""Events about pods and claims that wait for others: for kube-scheduler, a device plugin, an autoscaler; one function each, with a fixed reason."""

from apportion.api.contract import GUARD, MANAGED
from apportion.cluster.recorder import Recorder
from apportion.dra.pod import Pod
from apportion.scheduling.events import about_claim, about_pod
from apportion.scheduling.extendedresources import LeftPod
from apportion.scheduling.guardedclaims import GuardedClaim


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
    if not left.labelled:
        text += f". Give the class the label {MANAGED}=true"
    text += (
        f". Make the pod anew in a namespace with the label {MANAGED}=true, where manifests/components/extended-resources has such"
        f" pods ask for claims, or write claims: `apportion migrate -n {left.pod.namespace}` prints them"
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


def shown_to_autoscalers(recorder: Recorder, pod: Pod, why: str) -> None:
    """The pod waits for a node that is not there."""
    recorder.warning(about_pod(pod), "ShownToAutoscalers", why)
