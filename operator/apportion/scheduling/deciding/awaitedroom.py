"""AwaitedRoom: whether what a refused group lacked has come free, by counting devices and room of the nodes that changed.

In: a group's members as they were refused, the capacity of nodes. Out: yes or no. A group that lacks a hundred devices is not tried each time
that one comes free, and does not wait once the last one has.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from functools import partial
from itertools import islice

from apportion.allocator.gang.count import MOST_KINDS, first_of_kinds, kind_of
from apportion.allocator.gang.members import Member
from apportion.allocator.gang.podbound import GangKind, PodBound
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.candidates.candidates import Candidates
from apportion.scheduling.deciding.memberdemands import MemberDemands
from apportion.scheduling.demands.groups import WaitingGroup

_AT_ONCE = 64
"""Nodes that are counted before others have their turn."""
_CHANGED_AT_ONCE = 256
"""Nodes that changed and are counted whenever it is asked whether there is room; each takes some hundred-thousandths of a second."""


class AwaitedRoom:
    """Follows the nodes from a refusal on."""

    def __init__(
        self,
        group: WaitingGroup,
        members: Sequence[Member],
        demands: MemberDemands,
        candidates: Candidates,
        snapshot: Snapshot,
    ) -> None:
        """`demands`: those of the members, none of which is placed. Raises BrokenInput as `PodBound`."""
        self._snapshot = snapshot
        self._candidates = candidates
        self._managed = snapshot.managed
        self._enough = group.enough
        counts = Counter(kind_of(members, number) for number in range(len(members)))
        first = first_of_kinds(members) if len(counts) <= MOST_KINDS else {}
        self._room = PodBound(
            snapshot.state,
            [
                GangKind(
                    candidates.ask_on(group.demands[number], ""),
                    counts[kind],
                    members[number].pods,
                    partial(demands.room, number),
                )
                for kind, number in first.items()
            ],
        )
        self._seen = snapshot.state.moment, snapshot.changes.hosts.end
        self._left: dict[str, None] = {}
        """Nodes that changed and are to be counted yet."""
        self.refused_with = 0
        """For how many pods there was room at most when the group was refused."""

    def count(self) -> Generator[None, None, None]:
        """Count on all nodes; yields between some of them, and counts again what changes meanwhile."""
        names = iter(tuple(self._snapshot.state.names()))
        while some := tuple(islice(names, _AT_ONCE)):
            self._room.look(some)
            yield
        while self._follow() and self._left:
            yield
        self.refused_with = self._room.pods

    @property
    def is_short(self) -> bool:
        """Whether there was less room than it needs when the group was refused: it was refused for that."""
        return self.refused_with < self._enough

    def has_come(self) -> bool:
        """Say whether there is room for enough pods now as far as counting tells, and more than when the group was refused; nobody knows where it `is_behind`."""
        return self._follow() and not self._left and self.refused_with < self._room.pods >= self._enough

    @property
    def is_behind(self) -> bool:
        """Whether more nodes changed than were counted."""
        return bool(self._left)

    def _follow(self) -> bool:
        """Count some of the nodes that changed; says whether what was counted still means something."""
        snapshot = self._snapshot
        moment, hosts = self._seen
        moment, states = snapshot.state.since(moment)
        hosts, others = snapshot.changes.hosts.since(hosts)
        self._seen = moment, hosts
        if snapshot.managed is not self._managed:
            self._left.clear()
            return False  # other classes, which devices are asked for by
        is_known = states is not None and others is not None
        changed = (*(states or ()), *(others or ())) if is_known else snapshot.state.names()
        self._left.update(dict.fromkeys(changed))
        some = tuple(islice(self._left, _CHANGED_AT_ONCE))
        if some:
            self._candidates.capacity()  # brings the room of the nodes up to date
            self._room.look(some)
        for name in some:
            del self._left[name]
        return True
