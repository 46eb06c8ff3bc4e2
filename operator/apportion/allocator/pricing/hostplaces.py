"""HostPlaces: places for claims of several shared devices, counted with the cpu and memory that their pods request.

In: changed nodes, what recent pods requested. Out: the places that a choice takes, by kind, and the cost of one. Eight free
devices beside cpu for four are no place. A kind is a request with an amount of cpu and memory, rounded down to a band.
"""

from collections import Counter
from collections.abc import Sequence
from math import floor, log2
from typing import NamedTuple, Protocol

from apportion.allocator.changelog import NodeLog
from apportion.allocator.facts.host import HostResources, HostTable
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.pricing.demandhistory import TypicalHostDemand
from apportion.allocator.pricing.demandmix import entries
from apportion.allocator.pricing.freeshares import FreeSharesOfNodes
from apportion.allocator.pricing.prices import DemandPrices

STEPS = 4
"""Bands per doubling."""

MOST_KINDS = 32
"""Kinds counted; pods that request other amounts protect no places."""


class HostedCluster(NodeLog, Protocol):
    """The members of the state that this module reads."""

    hosts: HostTable

    def view(self, name: str) -> NodeView:
        """Return the present view of a node."""
        ...


class HostedRequest(NamedTuple):
    """Claims of one request whose pods request about the same."""

    number: int
    """Number of the request (`DemandPrices.several`)."""
    asked: HostResources


class Row(NamedTuple):
    """The places of one kind on one node."""

    kind: int
    number: int
    most: int
    """As far as devices go."""
    places: int
    cpu: int
    """Requested beside each place."""
    memory: int
    all_cpu: int
    """Requested beside all places."""
    all_memory: int


class HostPlaces:
    """The places of a cluster under one demand mix."""

    def __init__(self, prices: DemandPrices, free_shares: FreeSharesOfNodes) -> None:
        self._prices = prices
        self._free_shares = free_shares
        self._typical: TypicalHostDemand = ()
        self._cursors = -1, -1
        self.kinds: list[HostedRequest] = []
        self.parts: list[float] = []
        """Per kind its part of the claims with its request."""
        self.left: list[int] = []
        """Per kind the places in the cluster."""
        self._rows: dict[str, list[Row]] = {}
        """Per node the kinds that have places there; nodes without any are left out."""

    def follow(self, cluster: HostedCluster, typical: TypicalHostDemand) -> None:
        """Count anew the nodes that changed; all of them when pods of a new kind were seen."""
        new = typical is not self._typical and self._learn(typical)
        if not self.kinds:
            return
        devices_end, devices = cluster.since(self._cursors[0])
        hosts_end, hosts = cluster.hosts.since(self._cursors[1])
        self._cursors = devices_end, hosts_end
        names = cluster.names()
        if new or devices is None or hosts is None:
            self._rows.clear()
            self.left = [0] * len(self.kinds)
            for name in names:
                self._count(cluster, name)
            return
        for name in {*devices, *hosts}:
            for row in self._rows.pop(name, ()):
                self.left[row.kind] -= row.places
            if name in names:
                self._count(cluster, name)

    def taken(
        self, name: str, left: HostResources, requested: HostResources, lost: Sequence[int]
    ) -> list[int]:
        """Return the kinds that lose a place, each as often as it loses one.

        `left`: the node's cpu and memory before. `lost`: the requests that lose a place for lack of devices. Hot path.
        """
        rows = self._rows.get(name)
        found: list[int] = []
        if rows is None:
            return found
        # Pods that kube-scheduler preempts others for request more than there is.
        cpu, memory = left.less(requested)
        for kind, number, most, count, asked_cpu, asked_memory, all_cpu, all_memory in rows:
            after = most
            if lost:
                after -= lost.count(number)
            if after >= count and all_cpu <= cpu and all_memory <= memory:
                continue
            if after * asked_cpu > cpu:
                after = cpu // asked_cpu
            if after * asked_memory > memory:
                after = memory // asked_memory
            if after < count:
                # Promises to others may leave less than the state knows.
                before = min(count, _fitting(most, left, asked_cpu, asked_memory))
                found += [kind] * (before - max(after, 0))
        return found

    def _learn(self, typical: TypicalHostDemand) -> bool:
        """Learn what recent pods requested; return whether a kind is new."""
        self._typical = typical
        counts: Counter[HostedRequest] = Counter()
        for query, asked, count in typical:
            for entry in entries(query, count):
                number = self._prices.several.get(entry.alternative) if entry.alternative else None
                if number is not None:
                    counts[HostedRequest(number, HostResources(_band(asked.cpu), _band(asked.memory)))] += (
                        count
                    )
        known = len(self.kinds)
        self.kinds += [kind for kind in counts if kind not in self.kinds][: MOST_KINDS - known]
        totals: Counter[int] = Counter()
        for kind, count in counts.items():
            totals[kind.number] += count
        self.parts = [counts[kind] / max(totals[kind.number], 1) for kind in self.kinds]
        return len(self.kinds) > known

    def _count(self, cluster: HostedCluster, name: str) -> None:
        by_request = self._free_shares.of(cluster.view(name)).places()
        left = cluster.hosts.left.get(name)
        rows = []
        for kind, (number, asked) in enumerate(self.kinds):
            most = count = by_request.get(number, 0)
            if most and left is not None:
                count = _fitting(most, left, asked.cpu, asked.memory)
            if count:
                cpu, memory = asked
                rows.append(Row(kind, number, most, count, cpu, memory, count * cpu, count * memory))
                self.left[kind] += count
        if rows:
            self._rows[name] = rows


def _fitting(most: int, left: HostResources, cpu: int, memory: int) -> int:
    """Return how many of so many places have enough cpu and memory."""
    if most * cpu > left.cpu:
        most = left.cpu // cpu
    return most if most * memory <= left.memory else left.memory // memory


def _band(amount: int) -> int:
    """Return the lower end of an amount's band: the last power of two in steps of 1 / `STEPS` of the exponent."""
    return floor(2 ** (floor(log2(amount) * STEPS) / STEPS)) if amount > 0 else 0
