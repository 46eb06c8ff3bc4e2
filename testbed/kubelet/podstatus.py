"""The pod statuses that a kubelet writes.

In: a pod. Out: patches of its status.
"""

from collections.abc import Mapping
from typing import Any

from testbed.api import Json
from testbed.node import now

COMPLETE_AFTER = "testbed/complete-after"


def running(pod: Json, address: str) -> Json:
    """Return the status of a pod whose containers all run."""
    started = now()
    return {
        "phase": "Running",
        "podIP": address,
        # A pod that runs for the second time, after a restore of etcd, has an address.
        "podIPs": [{"$patch": "replace"}, {"ip": address}],
        "hostIP": "127.0.0.1",
        "startTime": started,
        "conditions": [
            {"type": kind, "status": "True", "lastTransitionTime": started}
            for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")
        ],
        "initContainerStatuses": [
            _container(each, {"terminated": {"exitCode": 0, "reason": "Completed"}}, ready=True)
            for each in pod["spec"].get("initContainers", ())
        ],
        "containerStatuses": [
            _container(each, {"running": {"startedAt": started}}, ready=True)
            for each in pod["spec"]["containers"]
        ],
    }


def succeeded(pod: Json) -> Json:
    """Return the status of a pod whose containers all exited with 0."""
    ended = now()
    return {
        "phase": "Succeeded",
        "conditions": [
            {
                "type": kind,
                "status": "False",
                "reason": "PodCompleted",
                "lastTransitionTime": ended,
            }
            for kind in ("ContainersReady", "Ready")
        ],
        "containerStatuses": [
            _container(
                each, {"terminated": {"exitCode": 0, "reason": "Completed", "finishedAt": ended}}, ready=False
            )
            for each in pod["spec"]["containers"]
        ],
    }


def ended(pod: Json) -> Json:
    """Return the status of a pod that is being deleted, and whose containers have ended."""
    phase = pod.get("status", {}).get("phase")
    if phase in ("Succeeded", "Failed"):
        return {"phase": phase}
    return succeeded(pod) if phase == "Running" else {"phase": "Failed"}


def complete_after(pod: Json) -> float | None:
    """Return how many seconds a pod runs before it succeeds by itself; None: for ever."""
    text = pod["metadata"].get("annotations", {}).get(COMPLETE_AFTER)
    return None if text is None else float(text)


def _container(spec: Mapping[str, Any], state: Json, *, ready: bool) -> Json:
    return {
        "name": spec["name"],
        "image": spec.get("image", ""),
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
    }
