"""IdlePartitions: partitions that nobody holds: how long they are kept, and how many are kept warm.

In: partitions as they become idle and stop being idle, policies, the clock. Out: the partitions whose time is over, and how
many are missing for the warm counts of policies.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

from apportion.api.partition import Partition
from apportion.cluster.managedclasses import ManagedClasses
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim


@dataclass(frozen=True, slots=True)
class IdlePartition:
    """One partition, since when nobody holds it, and its last holder."""

    partition: Partition
    since: float
    """By the clock."""
    claim: Claim | None
    """None: we never saw it held."""
    leaving: bool = False
    """Its card cannot keep it, or it could not be cut: it serves nobody, whatever its time is."""
    open: bool = True
    """Pods can come to its node: where they cannot it is kept for its time, and is not one of those kept warm."""

    @property
    def counts(self) -> bool:
        """Whether it is one of those kept warm."""
        return self.open and not self.leaving


class IdlePartitions:
    """Idle partitions by UID, in the order in which their time ends."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._kept: dict[str, IdlePartition] = {}
        self._ends: list[tuple[float, str]] = []
        """When each is due: a heap, which may name partitions that are no longer idle."""
        self._profiles: dict[str, dict[str, None]] = {}
        """Their UIDs by profile."""
        self._unsettled: set[str] = set()
        """Profiles that are kept warm and of which something changed."""
        self._managed: ManagedClasses | None = None
        self._warm: dict[str, int] = {}

    def put(self, uid: str, found: IdlePartition | None, snapshot: Snapshot) -> None:
        """Replace what is known of a partition; None: it is not idle."""
        old = self._kept.pop(uid, None)
        if old is not None and old.counts and not (found is not None and found.counts):
            self._move(old.partition.spec.profile, uid, kept=False)
        if found is None:
            return
        self._kept[uid] = found
        if found.counts and not (old is not None and old.counts):
            self._move(found.partition.spec.profile, uid, kept=True)
        if found.leaving:
            return
        if old is None or old.leaving or (old.since, old.open) != (found.since, found.open):
            heappush(self._ends, (found.since + _timeout(found, snapshot), uid))

    def since(self, uid: str) -> float | None:
        """Return since when a partition is idle; None where it is not."""
        found = self._kept.get(uid)
        return found.since if found is not None else None

    def follow(self, snapshot: Snapshot) -> bool:
        """Take in the policies; says whether they changed."""
        if self._managed is snapshot.managed:
            return False
        self._managed = snapshot.managed
        self._ends = [
            (found.since + _timeout(found, snapshot), uid)
            for uid, found in self._kept.items()
            if not found.leaving
        ]
        heapify(self._ends)
        self._warm = _warm(snapshot)
        self._unsettled = set(self._warm)
        return True

    def due(self, snapshot: Snapshot) -> Iterator[Partition]:
        """Yield the partitions whose time is over, again and again until they are gone, but for those kept warm."""
        now, over = self._clock(), dict[str, float]()
        while self._ends and self._ends[0][0] <= now:
            end, uid = heappop(self._ends)
            found = self._kept.get(uid)
            if uid in over or found is None or found.leaving:
                continue
            if end != found.since + _timeout(found, snapshot):
                continue
            if found.open and self._warm.get(found.partition.spec.profile):
                self._unsettled.add(found.partition.spec.profile)
            else:
                over[uid] = end
                yield found.partition
        for uid, end in over.items():
            heappush(self._ends, (end, uid))
        for profile in tuple(self._unsettled):
            yield from self._beyond_warm(profile, snapshot)

    def is_warm(self, profile: str) -> bool:
        """Say whether partitions of a profile are kept warm."""
        return bool(self._warm.get(profile))

    def missing(self) -> dict[str, int]:
        """Return how many partitions are missing for the warm counts, by profile."""
        return {
            profile: count - len(self._profiles.get(profile, ()))
            for profile, count in self._warm.items()
            if count > len(self._profiles.get(profile, ()))
        }

    def _beyond_warm(self, profile: str, snapshot: Snapshot) -> Iterator[Partition]:
        """Yield partitions of a warm profile whose time is over, but for as many as are kept, the latest."""
        found = [self._kept[uid] for uid in self._profiles.get(profile, ())]
        found.sort(key=lambda idle: (-idle.since, idle.partition.metadata.name))
        over, now = False, self._clock()
        for idle in found[self._warm.get(profile, 0) :]:
            if idle.since + _timeout(idle, snapshot) <= now:
                over = True
                yield idle.partition
        if not over:
            self._unsettled.discard(profile)

    def _move(self, profile: str, uid: str, *, kept: bool) -> None:
        uids = self._profiles.setdefault(profile, {})
        if kept:
            uids[uid] = None
        else:
            uids.pop(uid, None)
            if not uids:
                del self._profiles[profile]
        if profile in self._warm:
            self._unsettled.add(profile)


def _timeout(found: IdlePartition, snapshot: Snapshot) -> float:
    """Return the idle timeout, in seconds: that of the last holder's policy, or the longest of all policies in force."""
    managed = snapshot.managed
    if found.claim is not None:
        return managed.policy(found.claim).partitions.idle_timeout.total_seconds()
    specs = managed.policies.values()
    return max((spec.partitions.idle_timeout.total_seconds() for spec in specs), default=300.0)


def _warm(snapshot: Snapshot) -> dict[str, int]:
    wanted: dict[str, int] = {}
    for policy in snapshot.policies.values():
        for entry in policy.spec.partitions.warm:
            wanted[entry.profile] = max(wanted.get(entry.profile, 0), entry.count)
    return wanted
