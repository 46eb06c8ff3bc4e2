"""What a reflector reports."""

from apportion.cluster.client import Object
from apportion.cluster.kinds import CLASSES, TAINT_RULES, ResourceKind


class Seen:
    """Remembers what was observed."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    def __call__(self, kind: ResourceKind, change: str, item: Object) -> None:
        assert kind in (CLASSES, TAINT_RULES)
        if change == "DELETED":
            self.names.pop(item["metadata"]["uid"], None)
        else:
            self.names[item["metadata"]["uid"]] = item["metadata"]["name"]

    async def has(self, name: str) -> bool:
        return name in self.names.values()


def a_class(name: str) -> Object:
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": {}}
