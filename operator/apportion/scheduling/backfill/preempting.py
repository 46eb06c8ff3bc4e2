"""Nodes on which pods of lower priority would have to go: cpu and memory are there once kube-scheduler has preempted them.

In: a demand that no other node serves. Out: what to ask of the allocator about such nodes. Our gate goes with the allocation, and
kube-scheduler preempts as it would without us; where it does not, the allocation is stalled and given back (`stalled.py`).
"""

from dataclasses import replace

from apportion.allocator.demand import Demand
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates import Candidates, unplaced
from apportion.scheduling.hostcapacity import HostCapacity
from apportion.scheduling.waiting import WaitingDemand


def preempting(
    demand: WaitingDemand,
    candidates: Candidates,
    capacity: HostCapacity,
    snapshot: Snapshot,
    asked: Demand | None = None,
) -> Demand | None:
    """Return what to ask about nodes on which pods of lower priority would have to go; None: there are none.

    `asked`: what was asked about the other ones.
    """
    pods, has_lower = unplaced(demand, snapshot), snapshot.pod_index.has_lower
    if not pods or not all(pod.preempts and has_lower(pod.priority) for pod in pods):
        return None
    wider = candidates.ask(demand, capacity, preempting=True)
    if isinstance(wider, str) or wider.nodes is None:
        return None
    further = wider.nodes - (asked.nodes or frozenset()) if asked is not None else wider.nodes
    return replace(wider, nodes=further) if further else None
