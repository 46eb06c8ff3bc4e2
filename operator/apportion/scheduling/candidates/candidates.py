"""Candidates: the nodes where a demand could go, and what to ask of the allocator about them.

In: a demand, the capacity of nodes, the node of claims that are allocated already, what is excluded. Out: the
allocator's Demand with the names of the candidate nodes; or why there is none.
"""

from collections.abc import Collection, Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain

from apportion.allocator.allocate import serving
from apportion.allocator.demand import Demand
from apportion.allocator.facts.host import HostDemand
from apportion.api.contract import GUARD
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from apportion.dra.nodeconstraints import against
from apportion.dra.pod import Pod
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.candidates.stillprepared import StillPrepared
from apportion.scheduling.demands.podneeds import constraints_of, requested
from apportion.scheduling.demands.shape import Shape
from apportion.scheduling.demands.waiting import WaitingDemand
from apportion.scheduling.room import foreignclaims
from apportion.scheduling.room.company import in_order
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.room.noderoom import NodeRoom, promised_node, unplaced
from apportion.scheduling.room.placedpods import Goes, PlacedPods, below
from apportion.scheduling.room.sharing import Parts, parts

TOLERATIONS = (Toleration(key=GUARD, operator="Exists"),)
"""The guard taint keeps kube-scheduler off our devices; it is no obstacle to us."""

_REFUSED = "kube-scheduler refused the node or others of its zone before, or nobody cut a partition there for the pod"


class Candidates:
    """Asks about demands, within one pass at a time."""

    def __init__(self, snapshot: Snapshot, exclusions: Exclusions, still_prepared: StillPrepared) -> None:
        self._snapshot = snapshot
        self._exclusions = exclusions
        self._still_prepared = still_prepared
        self._room = NodeRoom(snapshot)
        self.placed = PlacedPods(
            snapshot, lambda pod: pod.node or promised_node(pod, snapshot), self._room.doubted
        )
        """The pods on nodes."""
        self.neighbours = Neighbours(snapshot, self.placed, self._room.capacity)
        self._pass = 0

    def begin(self, number: int) -> None:
        """Start a pass; its number seeds the choice among equals."""
        self._pass = number

    @property
    def idle(self) -> Mapping[DeviceId, int]:
        """Devices whose partition is cut and held by nobody: choosing one cuts nothing."""
        return self._snapshot.devices.idle

    def reading(self) -> Iterator[None]:
        """Read the capacity of all nodes, and what waiting pods ask of the pods there; yields where others may run."""
        yield from self._room.steps()
        yield from self.placed.steps()

    def ahead(
        self, pods: Collection[Pod], turns: foreignclaims.Turns = foreignclaims.without_turns
    ) -> Generator[None, None, bool]:
        """Find what `ask` needs to know of nodes, and of the pods there, about these pods; yields where others may run. Says whether all of it is kept.

        `turns`: as `foreign_ahead` has it.
        """
        yield from self._room.capacity.ahead(pods)
        yield from foreignclaims.foreign_ahead(pods, self._room.capacity.nodes, self._snapshot, turns)
        return (yield from self.neighbours.ahead(pods))

    def ahead_of(
        self,
        demand: WaitingDemand,
        capacity: HostCapacity,
        turns: foreignclaims.Turns = foreignclaims.without_turns,
    ) -> Generator[None, None, None]:
        """Find what `ask` needs to know about a demand; yields where others may run. `turns`: as `foreign_ahead` has it."""
        yield from capacity.fitting_ahead((unplaced(demand, self._snapshot),))
        yield from self.ahead(demand.pods, turns)

    def capacity(self) -> HostCapacity:
        """Return the capacity of all nodes: bound pods count, and those that an allocation sends there.

        It is always the same object; what changed since it was read last is looked at again.
        """
        for _ in self._room.steps():
            pass
        return self._room.capacity

    def ask(self, demand: WaitingDemand, capacity: HostCapacity, *, preempting: bool = False) -> Demand | str:
        """Return what to ask of the allocator; or, as text for people, why no node could take the pods.

        `preempting`: pods of lower priority do not count. kube-scheduler preempts them once our gate is gone.
        """
        paused = self._paused(demand)
        if paused is not None:
            return paused
        pods = unplaced(demand, self._snapshot)
        allowed, reasons = capacity.fitting(pods, preempting=preempting)
        nodes = self._suiting(demand, allowed, reasons, capacity, below(pods) if preempting else None)
        if not nodes:
            counts = [f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1])]
            return "no node can take the pod: " + ("; ".join(counts) or "there are no nodes")
        return Demand(
            demand.asked,
            nodes,
            excluded=self._exclusions.devices(),
            tolerations=TOLERATIONS,
            host=HostDemand(requested(pods), capacity.taken) if pods else None,
            seed=f"{demand.key}/{self._pass}",
        )

    def ask_with_victims(
        self, demand: WaitingDemand, capacity: HostCapacity, nodes: Iterable[str], goes: Goes | None = None
    ) -> Demand | None:
        """Return what to ask about these nodes, if they had room beside devices; None where none of them suits the pods otherwise.

        `goes`: the pods that might go, so that they keep nobody off their node.
        """
        if self._paused(demand) is not None:
            return None
        suiting = self.possible(demand, capacity, frozenset(nodes), goes)
        excluded = self._exclusions.devices()
        return Demand(demand.asked, suiting, excluded, TOLERATIONS, seed=demand.key) if suiting else None

    def _paused(self, demand: WaitingDemand) -> str | None:
        """Return why a demand waits for a while whatever is free; None if it does not."""
        if self.rests(demand):
            return (
                "its devices were given back, because no scheduler took the pod and others waited for them: its other"
                " Events say why; it is tried again after a pause, which doubles each time up to an hour"
            )
        if any(self._still_prepared.may_bind(claim.uid) for claim in demand.claims):
            return (
                "its claim lost its devices a moment ago, and kube-scheduler may still bind a pod by them; it is tried"
                " again after a few seconds"
            )
        return None

    def rests(self, demand: WaitingDemand) -> bool:
        """Say whether a demand waits behind the others for a while, because devices of its claims were given back."""
        return any(self._exclusions.rests(claim.uid) for claim in demand.claims)

    def shape(self, demand: WaitingDemand) -> Shape | None:
        """Return what decides the answer to a demand: demands of equal shape could stand for each other.

        None where more decides: an allocated claim or a bound pod ties it to a node, a node is left out for its pods or
        claims alone, neighbours or other claims of its pods may rule nodes out, its claims rest, or they are broken.
        """
        state, pods = self._snapshot.state, demand.pods
        if demand.tied or any(pod.node is not None for pod in pods):
            return None
        if self._exclusions.nodes([pod.uid for pod in pods], self._snapshot.node):
            return None
        if self.rests(demand):
            return None
        volumes = [self._asked_by_volumes(pod) for pod in pods if pod.volumes]
        if any(self._is_conditioned(pod) for pod in pods):
            return None
        late = self._still_prepared
        if any(late.nodes(claim.uid) or late.may_bind(claim.uid) for claim in demand.claims):
            return None
        try:
            query = state.queries.of(demand.asked, state.classes, state.features, TOLERATIONS)
        except BrokenInput:
            return None
        version = self._snapshot.volumes.version if any(volumes) else 0
        constraints = tuple([constraints_of(pod) for pod in pods])
        preempts = demand.priority if all(pod.preempts for pod in pods) else None
        return Shape(query, (*constraints, preempts), tuple(volumes), version, demand.priority)

    def _conditioned(
        self,
        pod: Pod,
        allowed: frozenset[str],
        capacity: HostCapacity,
        reasons: dict[str, int],
        goes: Goes | None,
        beside: Sequence[Pod],
        looked_at: set[object],
    ) -> frozenset[str]:
        """Return which of these nodes suit the pod's volumes, other claims and neighbours, those `beside` it too; adds to `reasons` what rules the others out, and to `looked_at` what its volumes ask, and the kind of pod about which neighbours were asked."""
        asked = [each for each in self._snapshot.volumes.conditions(pod) if each not in looked_at]
        looked_at.update(asked)
        for condition in dict.fromkeys(asked):
            if isinstance(condition, str):
                reasons[condition] = len(allowed)
                return frozenset()
            suited = frozenset(name for name in allowed if condition.holds(capacity.nodes[name]))
            if len(suited) < len(allowed):
                reasons[condition.reason] = len(allowed) - len(suited)
                allowed = suited
        for claims, nodes in foreignclaims.foreign_claims_on(pod, allowed, capacity.nodes, self._snapshot):
            what = (
                f"no devices for {', '.join(claim.key for claim in claims)}, which kube-scheduler allocates"
            )
            try:
                suited = serving(self._snapshot.state, Demand(claims, nodes))
            except BrokenInput as error:
                what, suited = f"{what}: {error}", frozenset()
            if len(suited) < len(nodes):
                reasons[what] = len(nodes) - len(suited)
                allowed = allowed - nodes | suited
        if (kind := self.neighbours.kind(pod)) in looked_at:
            return allowed
        looked_at.add(kind)
        kept_off = "host port", capacity.without_port(pod)
        for reason, nodes in chain((kept_off,), self.neighbours.ruled_out(pod, goes, beside)):
            if off := nodes & allowed:
                reasons[reason] = reasons.get(reason, 0) + len(off)
                allowed -= off
            if not allowed:
                break  # what else rules nodes out takes a look at all of them
        return allowed

    def _is_conditioned(self, pod: Pod) -> bool:
        """Say whether other claims or neighbours may rule a node out for this pod."""
        return foreignclaims.has_foreign(pod, self._snapshot) or self.neighbours.rules_out(pod)

    def _asked_by_volumes(self, pod: Pod) -> tuple[object, ...]:
        """Return what the pod's volumes ask of nodes."""
        conditions = dict.fromkeys(self._snapshot.volumes.conditions(pod))
        return tuple("nowhere" if isinstance(each, str) else each.asks for each in conditions)

    def parts(self, demand: WaitingDemand, capacity: HostCapacity) -> Parts:
        """Return smaller demands for a demand whose pods share claims and that is not served as a whole; yields where others may run."""
        return parts(demand, unplaced(demand, self._snapshot), capacity, self._snapshot)

    def on_node(self, demand: WaitingDemand, node: str) -> Demand | None:
        """Return what to ask about one node, if it had room beside devices; None where the pods can never go."""
        found = self._snapshot.node(node)
        pods = demand.pods
        if found is None or any(pod.node not in (None, node) or against(found, pod) for pod in pods):
            return None
        if node in self._exclusions.nodes([pod.uid for pod in pods], self._snapshot.node):
            return None
        return self.ask_on(demand, node)

    def ask_on(self, demand: WaitingDemand, node: str) -> Demand:
        """Return what to ask about the devices of one node, whatever else its pods need there."""
        excluded = self._exclusions.devices()
        return Demand(demand.asked, frozenset({node}), excluded, TOLERATIONS, seed=demand.key)

    def possible(
        self,
        demand: WaitingDemand,
        capacity: HostCapacity,
        among: frozenset[str] | None = None,
        goes: Goes | None = None,
    ) -> frozenset[str]:
        """Return the nodes, of `among` or of all, where the demand's pods could go if nothing else took cpu and memory there.

        `goes`: the pods that might have gone by then, so that they keep nobody off their node.
        """
        nodes = capacity.suitable(unplaced(demand, self._snapshot))
        return self._suiting(demand, nodes if among is None else nodes & among, {}, capacity, goes)

    def _suiting(
        self,
        demand: WaitingDemand,
        allowed: frozenset[str],
        reasons: dict[str, int],
        capacity: HostCapacity,
        goes: Goes | None,
    ) -> frozenset[str]:
        """Return which of these nodes suit what the demand asks beside cpu and memory; adds to `reasons` what rules the others out."""
        pods, looked_at = in_order(demand.pods), set[object]()
        for number, pod in enumerate(pods):
            if pod.node is not None:
                allowed &= {pod.node}
            else:
                beside = pods[:number]
                allowed = self._conditioned(pod, allowed, capacity, reasons, goes, beside, looked_at)
        for claim in demand.tied:
            allocation = self._snapshot.allocation(claim)
            if allocation is not None and not allocation.everywhere:
                there = frozenset(name for name in allowed if allocation.allows(capacity.nodes[name]))
                if len(there) < len(allowed):
                    reasons[f"claim {claim.key} is allocated elsewhere"] = len(allowed) - len(there)
                allowed = there
        for claim in demand.claims:
            if late := self._still_prepared.nodes(claim.uid) & allowed:
                reasons[f"still has claim {claim.key} prepared: containers of its former pod may run"] = len(
                    late
                )
                allowed -= late
        unbound = [pod.uid for pod in demand.pods if pod.node is None]
        avoid = self._exclusions.nodes(unbound, self._snapshot.node) & allowed
        if avoid:
            reasons[_REFUSED] = len(avoid)
        return allowed - avoid if avoid else allowed
