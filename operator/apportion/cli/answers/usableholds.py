"""UsableHolds: which devices that are held a demand may have all the same, by the operator's rules.

In: DeviceHolds, a demand. Out: those that are held for it, and reservations that it may use until they begin (ADR 27).
"""

import math
from collections.abc import Callable, Collection

from apportion.api.hold import DeviceHold, HoldPurpose
from apportion.cli.world.holds import Holds
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.runtimes import ends_at, runtime_of
from apportion.scheduling.demands.waiting import WaitingDemand, priority_of


class UsableHolds:
    """Says what a demand may use."""

    def __init__(self, snapshot: Snapshot, holds: Holds, now: Callable[[], float]) -> None:
        """`now`: seconds since 1970."""
        self._snapshot = snapshot
        self._holds = holds
        self._now = now

    def own(self, demand: WaitingDemand) -> list[DeviceHold]:
        """Return what is held for a demand: for its claims, or, while pods are moved, for pods of its controller."""
        claims = {claim.uid for claim in demand.claims}
        controllers = {pod.controller.uid for pod in demand.pods if pod.controller is not None}
        return [
            each
            for each in self._holds.found.values()
            if claims & {one.uid for one in each.spec.held_for} or controllers & {*each.spec.controllers}
        ]

    def by(self, demand: WaitingDemand) -> list[DeviceHold]:
        """Return what a demand may use."""
        if not self._holds.found:
            return []
        own, priority = self.own(demand), priority_of(demand, self._snapshot.managed)
        reserved = [
            each for each in self._holds.found.values() if each.spec.purpose is HoldPurpose.RESERVATION
        ]
        ends = self._ends(demand) if any(each.spec.starts for each in reserved) else math.inf
        return own + [
            each
            for each in reserved
            if each not in own
            and (
                priority > (each.spec.priority or 0)
                or (each.spec.starts is not None and ends <= each.spec.starts.timestamp())
            )
        ]

    def _ends(self, demand: WaitingDemand) -> float:
        runtime = runtime_of(demand, self._exceeding())
        return math.inf if runtime is None else ends_at(self._now(), runtime)

    def _exceeding(self) -> Collection[str]:
        endings = NodeEndings(self._snapshot)
        endings.follow()
        return endings.exceeding(self._now())
