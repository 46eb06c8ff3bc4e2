"""WideDevices: the devices that several nodes reach and a head may want, and who has them.

In: what a head asks for, the snapshot. Out: the claims whose end would give it devices on a node, wherever their pods run.
"""

from collections.abc import Collection, Iterable

from apportion.allocator.devicecount import freed, matching
from apportion.allocator.rules.query import Query
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult


class WideDevices:
    """Those that are held now."""

    def __init__(self, snapshot: Snapshot, queries: Iterable[Query]) -> None:
        """`queries`: what the head asks for."""
        self._state = snapshot.state
        self._queries = tuple(dict.fromkeys(queries))
        self._held: dict[str, list[DeviceResult]] = {}
        """By claim (UID)."""
        wide = snapshot.devices.wide
        for uid in dict.fromkeys(key for device in wide for key in self._state.holders(device)):
            claim = snapshot.claims.get(uid)
            allocation = snapshot.allocation(claim) if claim is not None else None
            if allocation is not None:
                self._held[uid] = [each for each in allocation.results if each.device in wide]
        for query in self._queries if self._held else ():
            self._state.settle(query)

    def holders(self, node: str) -> Collection[str]:
        """Return the claims (UIDs) that have such devices of a node's."""
        if not self._held:
            return ()
        view, wanted = self._state.view(node), 0
        for query in self._queries:
            mask = matching(self._state, query, view)
            wanted |= (1 << len(view.devices)) - 1 if mask is None else mask
        return [uid for uid, results in self._held.items() if freed(view, results) & wanted]
