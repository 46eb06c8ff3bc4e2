"""ChangedNodes: the nodes of which something changed that counts for a plan: devices, who holds them and until when, room beside them.

In: the logs of snapshot and state, the endings of nodes. Out: the nodes that changed since a pass began, or since a plan was made.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from apportion.allocator.changelog import ChangeLog
from apportion.cluster.changes import most_changes
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.nodeendings import NodeEndings


class ChangedNodes:
    """Follows the logs."""

    def __init__(self, snapshot: Snapshot, endings: NodeEndings) -> None:
        self._snapshot = snapshot
        self._endings = endings
        self._hosts = self._slices = self._states = -1
        """How far the changes of nodes, slices and the allocator's state were read."""
        self._log: ChangeLog[str] = ChangeLog()
        self._others: ChangeLog[str] = ChangeLog()
        self._touched: set[str] | None = None
        """The nodes that others changed since the latest pass began; None: any may have."""

    @property
    def end(self) -> int:
        """How far the changes were read."""
        return self._log.end

    @property
    def others_end(self) -> int:
        """The same of what others changed."""
        return self._others.end

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed, so that `follow` takes a moment; yields where others may run."""
        return self._endings.steps()

    def begin(self) -> set[str] | None:
        """Start a pass; returns the nodes that others changed since the former one began, None: any may have."""
        self.follow()
        touched, self._touched = self._touched, set()
        return touched

    def follow(self) -> None:
        """Look at what changed since the former call."""
        snapshot = self._snapshot
        touched = self._endings.follow()
        self._hosts, hosts = snapshot.changes.hosts.since(self._hosts)
        self._states, states = snapshot.state.since(self._states)
        slices, self._slices = self._slices, snapshot.slice_epoch
        if hosts is None or slices != snapshot.slice_epoch:
            self._touched = None
            self._others.void()
        else:
            for node in touched.union(hosts):
                self._others.add(node, most=most_changes(len(snapshot.nodes)))
            if self._touched is not None:
                self._touched |= touched.union(hosts)
        if self._touched is None or hosts is None or states is None:
            self._log.void()
            return
        # What we hold and release ourselves changes what others may have.
        for node in touched.union(hosts, states):
            self._log.add(node, most=most_changes(len(snapshot.nodes)))

    @contextmanager
    def put_back(self) -> Iterator[None]:
        """Count no node as changed by what is held and released within the block: all of it is put back until its end."""
        self.follow()
        try:
            yield
        finally:
            self._states = self._snapshot.state.moment

    def by_others_since(self, seen: int) -> frozenset[str] | None:
        """Return the nodes that others changed; None: any may have. `seen`: the `others_end` of then."""
        _, changed = self._others.since(seen)
        return None if changed is None else frozenset(changed)

    def since(self, seen: int) -> frozenset[str] | None:
        """Return the nodes that changed after a plan was made; None: any may have. `seen`: the `end` of then."""
        _, changed = self._log.since(seen)
        return None if changed is None else frozenset(changed)
