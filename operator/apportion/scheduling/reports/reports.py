"""Reports: what a pass tells people about what waits, before it decides.

In: the snapshot, the demands that wait, those that can never be served. Out: Events and metrics.
"""

from collections.abc import Callable, Collection, Generator
from functools import partial
from itertools import chain

from apportion import metrics
from apportion.api.contract import GATE
from apportion.cluster.objectstore import BrokenObject
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.scheduling.demands.extendedresources import ExtendedResources
from apportion.scheduling.demands.guardedclaims import GuardedClaims
from apportion.scheduling.demands.waiting import Unservable, UnservablePod
from apportion.scheduling.events import events, unservedevents
from apportion.scheduling.reports.brokenpools import BrokenPools
from apportion.scheduling.reports.foreignallocations import ForeignAllocations
from apportion.scheduling.reports.telling import Telling
from apportion.scheduling.reports.unknownmetadata import UnknownMetadata
from apportion.scheduling.writing.gates import Gates, shut_by_policies

_SEEN_LATE = 5.0
"""Seconds within which the watch of pods shows the end of a pod whose claim was deallocated for it."""


class Reports:
    """Tells what keeps demands from being served, other than room."""

    def __init__(
        self,
        snapshot: Snapshot,
        recorder: Recorder,
        gates: Gates,
        extended: ExtendedResources,
        clock: Callable[[], float],
        *,
        manager: str,
    ) -> None:
        self._snapshot = snapshot
        self._recorder = recorder
        self._gates = gates
        self._clock = clock
        self._broken_pools = BrokenPools(snapshot, clock)
        self._foreign = ForeignAllocations(snapshot, manager=manager)
        self._extended = extended
        self._guarded = GuardedClaims(snapshot, clock)
        self._telling = Telling[Unservable | BrokenObject](
            clock, about=lambda found: found.pod if isinstance(found, UnservablePod) else found
        )
        self._taken = Telling[tuple[Pod, Claim, Pod]](clock, about=lambda row: row[0])
        self._uncut = Telling[tuple[Claim, DeviceId]](clock, about=lambda row: row[0])
        self._metadata = UnknownMetadata(snapshot)
        self._ended_since: dict[str, float] = {}
        """When claims were first seen to have lost devices that pods use, by UID."""

    def tell(self, waiting: int, unservable: Collection[Unservable]) -> Generator[None, None, None]:
        """Tell how many demands wait, and which can never be served or are kept from it by what cannot be read; yields where others may run."""
        metrics.PENDING.set(waiting)
        for found in self._telling.due(chain(unservable, self._snapshot.broken.values())):
            if isinstance(found, BrokenObject):
                events.unreadable(self._recorder, found)
            else:
                events.unservable(self._recorder, found)
        yield
        for pod, unread in shut_by_policies(self._snapshot):
            events.policy_unreadable(self._recorder, pod, unread)
        for pod, claim, other in self._taken.due(self._gates.taken):
            events.network_taken(self._recorder, pod, claim, other)
        for claim, device in self._uncut.due(self._gates.uncut.values()):
            pods = [pod for pod in self._snapshot.users(claim) if GATE in pod.gates]
            unservedevents.partition_not_cut(self._recorder, claim, device, pods)
        yield
        yield from self._broken_pools.steps()
        for finding in self._broken_pools.due():
            events.broken_pool(self._recorder, finding)
        yield
        yield from self._foreign.steps(partial(events.foreign, self._recorder))
        for left in self._extended.left():
            unservedevents.extended_resource(self._recorder, left)
            yield  # a pod may ask for a hundred, and the nodes are gone through for each
        for named, said in self._metadata.new():
            events.unknown_metadata(self._recorder, named, said)
        yield from self._guarded.steps()
        for guarded in self._guarded.found():
            unservedevents.unmanaged_class(self._recorder, guarded)
            yield
        now = self._clock()
        self._ended_since = {c.uid: self._ended_since.get(c.uid, now) for c, _ in self._snapshot.ended}
        for claim, pod in self._snapshot.ended:
            if now - self._ended_since[claim.uid] >= _SEEN_LATE:
                events.claim_ended(self._recorder, pod, claim)
