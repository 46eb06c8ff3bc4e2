"""Domains within which a group may start: equal values of the node labels in which all of its pods have to agree.

In: a group that waits, the nodes on which it is planned. Out: sets of these nodes, each of which may take all of it.
"""

from collections.abc import Sequence

from apportion.allocator.gang.domains import domains_of
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.backfill.heads import Head
from apportion.scheduling.demands.groupladder import ladder_of
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.room.company import is_company


def group_domains(head: Head, nodes: frozenset[str], snapshot: Snapshot) -> list[frozenset[str]]:
    """Return the nodes of each domain in which all members may start; all nodes for a demand, and for a group that asks for no domain.

    Levels that are required (of the group or its policy) rule out all others. Pods that need each other within a label (required affinity) may be apart
    where others of their kind run already: there are domains of that label, and then all nodes once more.
    """
    if not isinstance(head, WaitingGroup):
        return [nodes]
    ladder = ladder_of(head, snapshot.managed.policy(head.demands[0].claims[0]), snapshot)
    company = {
        term.topology_key
        for demand in head.demands
        for pod in demand.pods
        if is_company(pod, pod, snapshot.namespaces.selects)
        for term in pod.relations.affinity
    }
    required = _within(ladder.required, nodes, ladder.occupied, snapshot)
    if not company:
        return required
    return [*_within((*ladder.required, *sorted(company)), nodes, ladder.occupied, snapshot), *required]


def _within(
    labels: Sequence[str], nodes: frozenset[str], occupied: frozenset[str], snapshot: Snapshot
) -> list[frozenset[str]]:
    """Return the nodes of each domain of these labels, of those only where pods of the group run already, if any do (`occupied`)."""
    if not labels:
        return [nodes]
    domains = domains_of(snapshot.state, labels).values()
    return [own & nodes for own in domains if own & nodes and (not occupied or own & occupied)]
