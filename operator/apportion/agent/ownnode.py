"""The agent's own Node: its labels, and which cards device plugins offer there.

In: watch events of one Node, the clock. Out: both as they are now, and calls when they change. While the Node is not there they stay as they were.

What kubelet writes of a device plugin's resource (kubernetes 1.37, pkg/kubelet/cm/devicemanager/manager.go): when the plugin's connection ends,
`allocatable` is 0 at once and `capacity` after five minutes (`endpointStopGracePeriod`), so that an update of the plugin leaves it. After a start of
kubelet's own both are 0 until the plugin has registered anew. Its pods run on all the while.
"""

import time
from collections.abc import Callable, Mapping
from math import inf
from typing import Final

from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, ResourceKind
from apportion.cluster.reflector import Reflector

_RETURN: Final = 120.0
"""Seconds within which a plugin has registered anew after kubelet, or the node, has started."""


class OwnNode:
    """Follows one Node."""

    def __init__(
        self,
        client: Client,
        node: str,
        offer_changed: Callable[[], None] = lambda: None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`offer_changed` is called when device plugins offer something else; what ends by the clock ends without a call."""
        self._reflector = Reflector(client, NODES, self.observe, fieldSelector=f"metadata.name={node}")
        self._offer_changed, self._clock = offer_changed, clock
        self.synced = self._reflector.synced
        """Set once the Node was looked for."""
        self.labels: Mapping[str, str] | None = None
        """None before they are known."""
        self.labels_changed: Callable[[], None] = lambda: None
        self._until: dict[str, float] = {}
        """By extended resource, until when it counts as offered."""

    @property
    def offered(self) -> frozenset[str]:
        """The extended resources that device plugins offer there, or did a moment ago."""
        now = self._clock()
        return frozenset(name for name, until in self._until.items() if until > now)

    async def run(self) -> None:
        """Follow it until cancelled."""
        await self._reflector.run()

    def observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event of the Node."""
        if change == "DELETED":
            return
        labels = item["metadata"].get("labels") or {}
        if labels != self.labels:
            self.labels = labels
            self.labels_changed()
        before, soon = self.offered, self._clock() + _RETURN
        status = item.get("status") or {}
        written = [(status.get(field) or {}).items() for field in ("capacity", "allocatable")]
        amounts = [(name, amount) for rows in written for name, amount in rows if "/" in name]
        there = {name for name, amount in amounts if amount != "0"}
        for name in {name for name, _ in amounts} | self._until.keys():
            self._until[name] = inf if name in there else min(self._until.get(name, soon), soon)
        if self.offered != before:
            self._offer_changed()
