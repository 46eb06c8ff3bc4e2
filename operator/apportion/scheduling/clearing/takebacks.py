"""TakeBacks: what becomes of allocations that others ended.

In: deallocations that the snapshot has seen. Out: nodes that kube-scheduler refused for pods are excluded, and nodes where a claim may still be
prepared. Of a claim that thousands of pods share they are all looked at, so that this is done in steps.
"""

from collections.abc import Iterator

import structlog

from apportion import metrics
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation
from apportion.dra.node import Node
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.events import events
from apportion.scheduling.pace import Pace
from apportion.scheduling.writing.ranktables import RankTables

_log = structlog.get_logger()


class TakeBacks:
    """Reads the deallocations."""

    def __init__(
        self,
        snapshot: Snapshot,
        recorder: Recorder,
        exclusions: Exclusions,
        still_prepared: StillPrepared,
        rank_tables: RankTables,
    ) -> None:
        self._snapshot = snapshot
        self._recorder = recorder
        self._exclusions = exclusions
        self._still_prepared = still_prepared
        self._rank_tables = rank_tables

    def skip(self) -> Iterator[None]:
        """Take note of those of the time when another replica acted: that one dealt with them, so that they exclude no node. Containers of former pods may run all the same. Yields where others may run."""
        pace = Pace()
        while self._snapshot.deallocations:
            event = self._snapshot.deallocations.popleft()
            self._still_prepared.note(event)
            if pace.rests(1 + sum(1 for _ in self._snapshot.users(event.claim))):
                yield

    def note(self) -> Iterator[None]:
        """Exclude nodes that kube-scheduler refused, and nodes where a claim may still be prepared; yields where others may run."""
        pace, looked = Pace(), 1
        while self._snapshot.deallocations:
            event = self._snapshot.deallocations.popleft()
            self._still_prepared.note(event)
            nodes = self._nodes(event.allocation)
            for pod in self._snapshot.users(event.claim):
                if pace.rests(looked):
                    yield
                looked, placeable = 1, not (pod.node or pod.gates or pod.finished or pod.deleting)
                if placeable:
                    looked += self._rank_tables.lost(pod, event.allocation)
                if nodes and event.is_refusal_for(pod.uid) and placeable:
                    metrics.TAKE_BACKS.inc()
                    looked += len(nodes)
                    if len(nodes) == 1:
                        alike = self._snapshot.nodes.values()
                        looked += len(alike)
                        seconds = self._exclusions.refuse_node(pod.uid, nodes[0], alike)
                    else:
                        seconds = self._exclusions.refuse_nodes(pod.uid, nodes)
                    others = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
                    events.node_refused(self._recorder, pod, nodes[0].name + others, seconds)
                    _log.info(
                        "claim.taken_back",
                        claim=event.claim.key,
                        pod=pod.key,
                        node=nodes[0].name,
                        seconds=seconds,
                    )
        self._exclusions.forget_pods(lambda uid: uid in self._snapshot.pods)

    def _nodes(self, allocation: Allocation) -> list[Node]:
        """Return the nodes that an allocation is for; none where it is for all: kube-scheduler takes such a one back from nobody."""
        selector = allocation.node_selector
        if allocation.node is not None:
            node = self._snapshot.node(allocation.node)
            return [node] if node is not None else []
        if selector is None:
            return []
        nodes = self._snapshot.nodes.values()
        return [each for each in nodes if selector.matches(each.name, each.labels)]
