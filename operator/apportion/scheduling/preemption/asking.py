"""Asking: one for whom victims are searched, with the nodes that are looked at for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from apportion.allocator.demand import Demand
from apportion.cluster.snapshot import Snapshot
from apportion.dra.node import Resources
from apportion.scheduling.demands.podneeds import total
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.preemption.groupvictims import AskedGroup
from apportion.scheduling.preemption.inprogress import InProgress
from apportion.scheduling.preemption.preemptor import Preemptor
from apportion.scheduling.preemption.runninggroups import RunningGroups
from apportion.scheduling.room.noderoom import unplaced
from apportion.scheduling.room.obstacles import Obstacles


@dataclass(frozen=True, slots=True)
class Asking:
    """One that asks, and the nodes that are looked at for it."""

    preemptor: Preemptor
    asked: Demand | AskedGroup
    claims: Mapping[str, Sequence[str]]
    """By node the claims (UIDs) that could be taken back."""
    obstacles: Obstacles
    """What keeps its pods off nodes."""
    now: InProgress
    """What is being done for others."""
    groups: RunningGroups
    """The groups of pods that run, each as it was when it was needed first."""

    def wanted(self, demand: WaitingDemand, snapshot: Snapshot) -> Resources:
        """Return what the pods of a demand want of a node."""
        pods = unplaced(demand, snapshot)
        return {**total(pods), **self.obstacles.wanted(pods)}
