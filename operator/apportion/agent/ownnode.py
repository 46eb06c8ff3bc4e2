"""The labels of the agent's Node, as they are now.

In: watch events of one Node. Out: its labels, and a call when they change. While the Node is not there they stay as they were.
"""

from collections.abc import Callable, Mapping

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, ResourceKind
from apportion.cluster.reflector import Reflector


class NodeLabels:
    """Follows one Node."""

    def __init__(self, client: Client, node: str) -> None:
        self._reflector = Reflector(client, NODES, self._observe, fieldSelector=f"metadata.name={node}")
        self.synced = self._reflector.synced
        """Set once the Node was looked for."""
        self.current: Mapping[str, str] | None = None
        """None before they are known."""
        self.changed: Callable[[], None] = lambda: None

    async def run(self) -> None:
        """Follow it until cancelled."""
        await self._reflector.run()

    def _observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        if change != "DELETED":
            labels = item["metadata"].get("labels") or {}
            if labels != self.current:
                self.current = labels
                self.changed()
