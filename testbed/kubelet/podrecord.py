"""The record of one pod on a simulated node, and the Event about its failures."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.api import Json
from testbed.kubelet.cdi import Injected, UnresolvableError
from testbed.node import now


@dataclass(slots=True)
class PodRecord:
    """The record of one pod on this node; the times are `time.time()`, None until it happens.

    Containers run from `running` to `stopped`. `devices` is by the claim's UID: driver, pool and name of what plugins prepared.
    `injected` is by container name; `problems` are the texts of all failures, each once.
    """

    namespace: str
    name: str
    uid: str
    bound: float
    prepared: float | None = None
    running: float | None = None
    succeeded: float | None = None
    stopped: float | None = None
    ended: float | None = None
    devices: Mapping[str, frozenset[tuple[str, str, str]]] = field(default_factory=dict)
    injected: Mapping[str, Injected] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def complaint(record: PodRecord, node: str, error: Exception) -> Json:
    """Return the Event that the kubelet writes about a pod whose claims it cannot prepare."""
    about = {"apiVersion": "v1", "kind": "Pod", "namespace": record.namespace, "name": record.name}
    at = now()
    return {
        "metadata": {"name": f"{record.name}.{uuid.uuid4().hex[:16]}", "namespace": record.namespace},
        "involvedObject": {**about, "uid": record.uid},
        "reason": "Failed" if isinstance(error, UnresolvableError) else "FailedPrepareDynamicResources",
        "message": str(error)[:1024],
        "type": "Warning",
        "source": {"component": "kubelet", "host": node},
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
