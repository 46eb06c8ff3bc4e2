"""Nodes and pods by what they offer and request beside devices."""

from itertools import count

from apportion.dra.node import Node
from apportion.dra.pod import Pod
from apportion.scheduling.room.hostcapacity import HostCapacity

_NUMBERS = count()


def node(name: str, **changes: object) -> Node:
    raw: dict[str, object] = {
        "metadata": {"name": name, "labels": {"zone": "a"}},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9", "example.com/thing": "1"}},
        **changes,
    }
    return Node.from_json(raw)


def pod(**spec: object) -> Pod:
    resources = {"requests": {"cpu": "1", "memory": "1Gi"}}
    raw = {
        "metadata": {"name": "p", "uid": f"uid-{next(_NUMBERS)}"},
        "spec": {"containers": [{"name": "c", "resources": resources}], **spec},
    }
    return Pod.from_json(raw)


def fits(capacity: HostCapacity, *pods: Pod) -> bool:
    return bool(capacity.fitting(pods)[0])
