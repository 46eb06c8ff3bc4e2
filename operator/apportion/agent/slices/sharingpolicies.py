"""How this node shares its GPUs, as AllocationPolicies say.

In: AllocationPolicies and the Node as they come and go. Out: the sharing of the oldest policy with an entry that selects the
node, None without one. Of a policy only `spec.sharing` is read. An entry that cannot be read (a newer release wrote it) leaves
what was decided before.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import structlog

from apportion.agent.ownnode import OwnNode
from apportion.agent.slices.shares import PublishedSharing
from apportion.api.policy import NodeSharing
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import POLICIES, ResourceKind
from apportion.cluster.reflector import Reflector
from apportion.errors import BrokenInput

_PATIENCE: Final = 5.0
"""Seconds."""
_log = structlog.get_logger()


class SharingPolicies:
    """Follows all AllocationPolicies, and a Node's labels."""

    def __init__(self, client: Client, node: OwnNode, changed: Callable[[], None]) -> None:
        """`changed` is called when the node's sharing is another one."""
        self._changed = changed
        self._node = node
        node.labels_changed = self._decide
        self._reflector = Reflector(client, POLICIES, self._observe_policy)
        self._policies: dict[str, tuple[str, str, tuple[Any, ...]]] = {}
        """By UID: creation, name, entries as written."""
        self._sharing: PublishedSharing | None = None
        self._waited = False

    async def run(self) -> None:
        """Follow the policies until cancelled."""
        await self._reflector.run()

    async def current(self) -> PublishedSharing | None:
        """Return how the node shares its GPUs.

        The first call waits until policies and Node are known, so that a start changes nothing, but not for a server that does
        not show them: GPUs are then published for one claim each, and no claim that has a share loses it by that.
        """
        if not self._waited:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    await self._reflector.synced.wait()
                    await self._node.synced.wait()
            self._waited = True
        return self._sharing

    def _observe_policy(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event of an AllocationPolicy."""
        metadata = item["metadata"]
        self._policies.pop(metadata["uid"], None)
        if change != "DELETED":
            entries = (item.get("spec") or {}).get("sharing") or ()
            self._policies[metadata["uid"]] = metadata["creationTimestamp"], metadata["name"], tuple(entries)
        self._decide()

    def _decide(self) -> None:
        try:
            found = self._find()
        except BrokenInput as error:
            _log.warning("policy.unreadable", error=str(error))
            return
        if found != self._sharing:
            self._sharing = found
            _log.info("sharing.changed", strategy=found and str(found.strategy), most=found and found.most)
            self._changed()

    def _find(self) -> PublishedSharing | None:
        for _, name, entries in sorted(self._policies.values(), key=lambda policy: policy[:2]):
            for index, raw in enumerate(entries):
                try:
                    entry = NodeSharing.from_json(raw)
                except BrokenInput as error:
                    field = f"AllocationPolicy {name}: spec.sharing[{index}].{error.field}"
                    raise BrokenInput(error.reason, field=field) from None
                if entry.node_selector.matches(self._node.labels or {}):
                    return PublishedSharing(entry.strategy, entry.most_claims)
        return None
