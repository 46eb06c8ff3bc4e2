"""Exclusions: nodes, devices and claims that failed for a pod or for all, left out for a while.

In: refusals by kube-scheduler (a node for a pod) and by the hardware (a partition that could not be cut), and claims whose
devices were given back because no scheduler took their pod. Out: the nodes to leave out for a pod, the devices to leave
out for all, the claims that wait behind the others. Each exclusion lasts twice as long as the one before; that of a node
ends at once when the node changes.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush, nsmallest
from typing import Final, TypeVar

from apportion.dra.device import DeviceId
from apportion.dra.node import Node

_K = TypeVar("_K")
ZONE: Final = "topology.kubernetes.io/zone"
_FIRST = 10.0
_LONGEST = 300.0
_LONGEST_REST = 3600.0
_EACH = 20.0
"""A node is left out for at least so many seconds for each other node that was refused for the pod, so that those that it has not tried get their turn meanwhile."""
_IN_A_ROW = 2 * _FIRST
"""Seconds within which refusals count together against the rest of a zone."""
_DOUBLED = 64
"""Times that an exclusion doubles at most: a float cannot hold what a thousand doublings make of ten seconds."""


@dataclass(slots=True)
class _Exclusion:
    until: float
    times: int
    node: Node | None = None


class Exclusions:
    """What to leave out, and until when."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._nodes: dict[str, dict[str, _Exclusion]] = {}
        self._tried: dict[str, tuple[float, int]] = {}
        """On how many nodes that it had not tried before a pod was refused within `_IN_A_ROW`, and since when."""
        self._devices: dict[DeviceId, _Exclusion] = {}
        self._claims: dict[str, _Exclusion] = {}
        self._ends: list[float] = []
        """When each exclusion in force ends: a heap."""
        self._changes = 0
        """How many exclusions have begun, and how many have ended."""

    def refuse_node(self, pod: str, node: Node, nodes: Iterable[Node] = ()) -> float:
        """Leave a node out for a pod (UID); returns for how many seconds.

        What rules a node out often rules out its whole zone. So from the second node on that is refused `nodes` of its zone are left
        out with it for a moment: one, then three, then seven. One that was tried before takes no others with it, so that all get their turn.
        """
        kept, now = self._nodes.setdefault(pod, {}), self._clock()
        was_tried = node.name in kept and kept[node.name].times > 0
        seconds = self.refuse_nodes(pod, (node,))
        if was_tried:
            return seconds
        since, tried = self._tried.get(pod, (now, 0))
        since, tried = (since, tried + 1) if now - since < _IN_A_ROW else (now, 1)
        self._tried[pod] = since, tried
        zone = node.labels.get(ZONE)
        in_force = {name for name, each in kept.items() if each.until > now}
        left = (each for each in nodes if each.name not in in_force)
        alike = (each for each in left if each.labels.get(ZONE) == zone)
        for other in nsmallest(2 ** (tried - 1) - 1, alike, key=lambda each: each.name):
            before = kept.get(other.name)
            self._begin(kept, other.name, _Exclusion(now + _FIRST, before.times if before else 0, other))
        return seconds

    def refuse_nodes(self, pod: str, nodes: Collection[Node]) -> float:
        """Leave out for a pod (UID) all nodes of a device that several reach, which were refused as one; returns for how many seconds at most."""
        kept, names = self._nodes.setdefault(pod, {}), {node.name for node in nodes}
        others = [name for name, each in kept.items() if each.times and name not in names]
        return max([self._refuse(kept, each.name, each, least=_EACH * len(others)) for each in nodes])

    def refuse_device(self, device: DeviceId) -> float:
        """Leave a device out for all; returns for how many seconds."""
        return self._refuse(self._devices, device, None)

    def rest(self, claim: str, least: float) -> float:
        """Let a claim (UID) wait behind the others; returns for how many seconds, `least` at the first time."""
        return self._refuse(self._claims, claim, None, max(least, _FIRST), _LONGEST_REST)

    def nodes(self, pods: Iterable[str], current: Callable[[str], Node | None]) -> frozenset[str]:
        """Return the names of the nodes that are left out now for one of the pods (UIDs)."""
        found = set()
        for pod in pods:
            for name, exclusion in self._nodes.get(pod, {}).items():
                if exclusion.until > self._clock() and current(name) == exclusion.node:
                    found.add(name)
        return frozenset(found)

    def devices(self) -> frozenset[DeviceId]:
        """Return the devices that are left out now."""
        return frozenset(device for device, e in self._devices.items() if e.until > self._clock())

    def rests(self, claim: str) -> float:
        """Return for how many seconds more a claim (UID) waits behind the others."""
        found = self._claims.get(claim)
        return max(0.0, found.until - self._clock()) if found is not None else 0.0

    def forget_pods(self, alive: Callable[[str], bool]) -> None:
        """Drop the exclusions of pods that no longer exist."""
        for pod in [pod for pod in self._nodes if not alive(pod)]:
            del self._nodes[pod]
            self._tried.pop(pod, None)

    def forget_claims(self, alive: Callable[[str], bool]) -> None:
        """Drop the exclusions of claims that no longer exist, or that a pod has reserved."""
        for claim in [claim for claim in self._claims if not alive(claim)]:
            del self._claims[claim]

    def epoch(self) -> int:
        """Return a number that grows whenever an exclusion begins, or ends by the clock."""
        now = self._clock()
        while self._ends and self._ends[0] <= now:
            heappop(self._ends)
            self._changes += 1
        return self._changes

    def _refuse(
        self,
        kept: dict[_K, _Exclusion],
        key: _K,
        node: Node | None,
        first: float = _FIRST,
        longest: float = _LONGEST,
        least: float = 0.0,
    ) -> float:
        before = kept.get(key)
        left = before.until - self._clock() if before is not None and before.node == node else 0.0
        if left > 0:
            return left  # the same refusal, seen again
        times = before.times + 1 if before is not None else 1
        seconds: float = max(min(first * 2.0 ** min(times - 1, _DOUBLED), longest), least)
        self._begin(kept, key, _Exclusion(self._clock() + seconds, times, node))
        return seconds

    def _begin(self, kept: dict[_K, _Exclusion], key: _K, exclusion: _Exclusion) -> None:
        kept[key] = exclusion
        heappush(self._ends, exclusion.until)
        self._changes += 1
