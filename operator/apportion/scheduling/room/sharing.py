"""Pods that share claims: which of them start, where not all can.

In: a demand whose pods do not fit together, the capacity of nodes. Out: smaller demands, the one with the most pods first.
A claim is allocated on one node, so its pods compete for the cpu, memory and labels of that node, and for the devices of their other claims; those that it
cannot take wait for the others' end, as they would for kube-scheduler.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice, takewhile
from typing import TypeAlias

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.excess import has_many_needs
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.dra.podrelations import PodRelations
from apportion.scheduling.demands.podneeds import constraints_of, lacking, total
from apportion.scheduling.demands.waiting import MOST_PODS, WaitingDemand
from apportion.scheduling.room.company import in_order, is_company
from apportion.scheduling.room.hostcapacity import HostCapacity

Parts: TypeAlias = Generator[None, None, Iterator[WaitingDemand]]
_MOST_KINDS = 8
"""Kinds of pods of which one is asked about alone."""


def parts(demand: WaitingDemand, unplaced: list[Pod], capacity: HostCapacity, snapshot: Snapshot) -> Parts:
    """Return demands of fewer pods, with the claims that these name: as many as nodes have room for, then fewer that name fewer claims. Yields where others may run.

    `unplaced`: its pods that no node has yet. Those that have one stay in every part, then are asked about without the others; at last the others are
    without those that are not bound: a claim may send these to a node that has no devices for what they share.
    """
    largest = (yield from capacity.largest(unplaced)) if len(demand.pods) > 1 else []
    return _parts(demand, unplaced, largest, snapshot)


def _parts(
    demand: WaitingDemand, unplaced: list[Pod], largest: Iterable[Sequence[Pod]], snapshot: Snapshot
) -> Iterator[WaitingDemand]:
    if len(demand.pods) < 2:
        return
    waiting = {pod.uid for pod in unplaced}
    placed = [pod for pod in demand.pods if pod.uid not in waiting]
    bound = [pod for pod in placed if pod.node is not None]
    # What all name was refused on each node that has the room for all, and where nobody keeps one of them off.
    refused = {_asked(demand)}
    roomy = [chosen for chosen in largest if len(chosen) < len(unplaced)]
    fewer = [(True, chosen) for chosen in roomy] + [(False, chosen) for chosen in _fewer(unplaced, snapshot)]
    sets = [(more, (*placed, *chosen)) for more, chosen in fewer]
    sets += [(False, tuple(chosen)) for chosen in (placed, *_fewer(placed, snapshot))]
    if len(bound) < len(placed):
        sets += [(more, (*bound, *chosen)) for more, chosen in ((False, unplaced), *fewer)]
    for has_more_nodes, chosen in sets:
        part = _part(demand, chosen, snapshot)
        if part is not None and (has_more_nodes or _asked(part) not in refused):
            refused.add(_asked(part))
            yield part


def alone(demand: WaitingDemand, snapshot: Snapshot) -> Iterator[WaitingDemand]:
    """Yield demands of one pod of each kind, where several share claims, with what that names."""
    kinds = _kinds(demand.pods, snapshot) if len(demand.pods) > 1 else ()
    for pod in islice(kinds, _MOST_KINDS):
        part = _part(demand, (pod,), snapshot)
        if part is not None:
            yield part


def _part(demand: WaitingDemand, pods: Iterable[Pod], snapshot: Snapshot) -> WaitingDemand | None:
    """Return a demand of some of its pods, with the claims that these name; None: all of these have devices."""
    chosen = tuple(sorted(pods, key=lambda pod: pod.uid))
    named = {claim.uid for pod in chosen for claim in snapshot.named_claims(pod) if claim is not None}
    claims, tied, asked = (
        tuple(claim for claim in each if claim.uid in named)
        for each in (demand.claims, demand.tied, demand.asked)
    )
    return replace(demand, claims=claims, pods=chosen, tied=tied, asked=asked) if claims else None


def _asked(demand: WaitingDemand) -> tuple[frozenset[str], frozenset[PodRelations]]:
    """Return its claims (UIDs), and what its pods ask of those beside them, as host ports: fewer of either may go where not all can."""
    claims = frozenset(claim.uid for claim in (*demand.claims, *demand.tied))
    return claims, frozenset(pod.relations for pod in demand.pods)


def _fewer(pods: Iterable[Pod], snapshot: Snapshot) -> Iterator[Sequence[Pod]]:
    """Yield half of the pods, the older ones, and so on, then one of each kind: nobody waits behind others for which no node has the devices.

    The others are tied to the node of those that are served, and looked at one by one.
    """
    ordered = sorted(pods, key=lambda pod: (pod.created, pod.uid))
    kinds = _kinds(ordered, snapshot)
    while len(ordered) > 3:
        ordered = ordered[: len(ordered) // 2]
        yield ordered
    yield from ((pod,) for pod in islice(kinds, _MOST_KINDS))


def _kinds(pods: Iterable[Pod], snapshot: Snapshot) -> Iterable[Pod]:
    """Return the first pod of each kind: those of one ask for the same of devices, node and neighbours."""
    kinds: dict[object, Pod] = {}
    for pod in pods:
        asks = []
        for claim in snapshot.named_claims(pod):
            if claim is not None:
                allocation = snapshot.allocation(claim)
                asks.append((id(claim.slots), allocation.node if allocation is not None else None))
        kinds.setdefault((pod.node, constraints_of(pod), pod.relations, *asks), pod)
    return kinds.values()


def fits_alone(pod: Pod, name: str, snapshot: Snapshot) -> bool:
    """Say whether a node could take a pod beside those that are bound to it; of one that asks for too much nobody knows."""
    node = snapshot.node(name)
    if node is None or has_many_needs(pod) or against(node, pod) is not None:
        return False
    load, backed = snapshot.pod_index.load(name), snapshot.managed.extended_resources
    return lacking(node, total((pod,)), load, backed=backed) is None


class ShutOut:
    """Says of pods whether others keep them out, all in one look: what is so of a claim is found out once, however many pods name it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._users: dict[str, list[Pod]] = {}
        """By claim (UID): the live pods that name it."""
        self._served: dict[str, bool] = {}
        """By claim (UID): whether its node could take one of its pods."""
        self._ordered: dict[str, Sequence[Pod]] = {}
        """By claim (UID): those that go to its node, in the order in which one is the other's company."""
        self._fits: dict[tuple[str, object], bool] = {}
        """By node and what that looks at in a pod: whether it could take it."""

    def is_shared(self, claim: Claim) -> bool:
        """Say whether several live pods name a claim."""
        return len(self._live(claim)) > 1

    def __contains__(self, pod: Pod) -> bool:
        """Say whether a claim is on a node that cannot take the pod, or not before its company, and is there for another pod that has not reserved it yet.

        kube-scheduler takes an allocation that nobody has reserved back from a pod that does not fit on its node.
        """
        selects = self._snapshot.namespaces.selects
        for claim in self._snapshot.named_claims(pod):
            node = claim.allocation.node if claim is not None and claim.allocation is not None else None
            if claim is None or node is None or claim.reserved_for:
                continue
            if not self._fits_alone(pod, node) and self._serves(claim, node):
                return True
            # One that is company of its own kind may be the first of that.
            if (
                pod.relations.affinity
                and not is_company(pod, pod, selects)
                and self._awaits_company(pod, claim)
            ):
                return True
        return False

    def _awaits_company(self, pod: Pod, claim: Claim) -> bool:
        """Say whether a pod needs the company of one that names the claim, too, and can be bound before it; of more pods than can reserve a claim nobody looks."""
        if claim.uid not in self._ordered:
            live = [each for each in self._live(claim) if not {*each.gates} - {GATE}]
            self._ordered[claim.uid] = in_order(live) if len(live) <= MOST_PODS else ()
        before = takewhile(lambda each: each.uid != pod.uid, self._ordered[claim.uid])
        return any(is_company(other, pod, self._snapshot.namespaces.selects) for other in before)

    def _serves(self, claim: Claim, node: str) -> bool:
        if claim.uid not in self._served:
            self._served[claim.uid] = any(self._fits_alone(each, node) for each in self._live(claim))
        return self._served[claim.uid]

    def _fits_alone(self, pod: Pod, node: str) -> bool:
        key = node, constraints_of(pod)
        if key not in self._fits:
            self._fits[key] = fits_alone(pod, node, self._snapshot)
        return self._fits[key]

    def _live(self, claim: Claim) -> list[Pod]:
        if claim.uid not in self._users:
            users = self._snapshot.users(claim)
            self._users[claim.uid] = [each for each in users if not each.finished and not each.deleting]
        return self._users[claim.uid]
