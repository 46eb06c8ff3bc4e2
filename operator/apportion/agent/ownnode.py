"""The agent's own Node: its labels, and which cards device plugins offer there.

In: watch events of one Node. Out: both as they are now, and calls when they change. While the Node is not there they stay as they were.
"""

from collections.abc import Callable, Mapping

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, ResourceKind
from apportion.cluster.reflector import Reflector


class OwnNode:
    """Follows one Node."""

    def __init__(self, client: Client, node: str, offer_changed: Callable[[], None] = lambda: None) -> None:
        """`offer_changed` is called when device plugins offer something else."""
        self._reflector = Reflector(client, NODES, self._observe, fieldSelector=f"metadata.name={node}")
        self._offer_changed = offer_changed
        self.synced = self._reflector.synced
        """Set once the Node was looked for."""
        self.labels: Mapping[str, str] | None = None
        """None before they are known."""
        self.labels_changed: Callable[[], None] = lambda: None
        self.offered: frozenset[str] = frozenset()
        """Extended resources that device plugins offer there: kubelet writes 0 for one whose plugin has gone."""

    async def run(self) -> None:
        """Follow it until cancelled."""
        await self._reflector.run()

    def _observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        if change == "DELETED":
            return
        labels = item["metadata"].get("labels") or {}
        if labels != self.labels:
            self.labels = labels
            self.labels_changed()
        amounts = (item.get("status") or {}).get("allocatable") or {}
        offered = frozenset(name for name, amount in amounts.items() if "/" in name and amount != "0")
        if offered != self.offered:
            self.offered = offered
            self._offer_changed()
