"""Fitting: places copies one after the other as the operator would, and keeps what it placed.

In: a world, copies. Out: where they go, and why the next one goes nowhere.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from apportion.cli.answers.copies import CLAIM, Copies, with_volumes_of
from apportion.cli.answers.decisions import Decisions, Reason, joined
from apportion.cli.world.objects import Key, key_of
from apportion.cli.world.world import World
from apportion.cluster import kinds
from apportion.dra.allocation import Allocation
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.dra.reading import Json
from apportion.scheduling.demands.waiting import UnservablePod, WaitingDemand
from apportion.scheduling.demands.waitingqueue import WaitingQueue

MOST = 256
"""Copies after which nobody looks for further ones; all that are wanted are tried."""


@dataclass(slots=True)
class Placed:
    """What became of some copies."""

    copies: Copies
    wanted: int
    nodes: Counter[str] = field(default_factory=Counter)
    """How many copies of those wanted are on each node."""
    devices: list[tuple[int, str, str, str, str]] = field(default_factory=list)
    """Of those wanted: number of the copy, node, claim, request, device."""
    most: int = 0
    """How many there is room for in all; of more than are wanted MOST at the most."""
    reason: Reason | None = None
    """Why the next one does not fit; None: it was not tried."""

    @property
    def served(self) -> bool:
        """Whether all that are wanted have a place."""
        return sum(self.nodes.values()) == self.wanted


_Answer: TypeAlias = tuple[str, list[tuple[Claim, Allocation]]] | Reason
"""The node, and what was allocated there; or why not."""


class Fitting:
    """Places copies."""

    def __init__(self, world: World, shared: Iterable[Json] = ()) -> None:
        """`shared`: claims that copies name and that are not in the cluster yet."""
        self._world = world
        self._decisions = Decisions(world.snapshot, world.holds)
        self._queue = WaitingQueue(world.snapshot)
        self._names: dict[str, int] = {}
        """By name of copies: the number of the last one."""
        for each in shared:
            if key_of(each) not in world.objects:
                world.put(each)

    def place(self, copies: Copies, wanted: int, *, further: bool) -> Placed:
        """Place the copies wanted; `further`: find out how many more would fit after them."""
        if Key(kinds.NAMESPACES.name, "", copies.namespace) not in self._world.objects:
            # Quotas select namespaces by labels; every namespace has this one.
            labels = {"kubernetes.io/metadata.name": copies.namespace}
            self._world.put({"kind": "Namespace", "metadata": {"name": copies.namespace, "labels": labels}})
        found = Placed(copies, wanted)
        for number in range(1, (max(wanted, MOST) if further else wanted) + 1):
            answer = self._place_one(copies)
            if isinstance(answer, Reason):
                found.reason = answer
                break
            found.most += 1
            node, allocated = answer
            if number <= wanted:
                found.nodes[node] += 1
                for claim, allocation in allocated:
                    found.devices += [
                        (number, node, claim.key, result.request, str(result.device))
                        for result in allocation.results
                    ]
        return found

    def _place_one(self, copies: Copies) -> _Answer:
        made = self._made(copies)
        for each in made:
            self._world.put(each)
        snapshot = self._world.snapshot
        named = [key_of(each).name for each in made if each["kind"] == CLAIM] + [*copies.shared]
        found = [(name, snapshot.claim(copies.namespace, name)) for name in named]
        missing = [name for name, claim in found if claim is None]
        if missing:
            return Reason("NoClaim", f"ResourceClaim {copies.namespace}/{missing[0]} does not exist")
        claims = {claim.uid: claim for _, claim in found if claim is not None}
        pod = self._pod(copies, made)
        if pod is not None and all(snapshot.allocation(claim) for claim in claims.values()):
            return self._beside_others(pod, claims.values())
        demand = self._demand(claims, pod)
        if isinstance(demand, Reason):
            return demand
        decision = self._decisions.decide(demand)
        if isinstance(decision, Reason):
            return decision
        self._decisions.grant(demand, decision)
        return decision.node, list(zip(demand.claims, decision.allocations, strict=True))

    def _made(self, copies: Copies) -> list[Json]:
        """Return the objects of the next copy, by names that nothing has: neither what is in the cluster nor copies of another workload of that name."""
        whose = f"{copies.namespace}/{copies.name}"
        while True:
            self._names[whose] = number = self._names.get(whose, 0) + 1
            made = [with_volumes_of(each, self._world.objects) for each in copies.make(number)]
            if not any(key_of(each) in self._world.objects for each in made):
                return made

    def _pod(self, copies: Copies, made: Iterable[Json]) -> Pod | None:
        names = [key_of(each).name for each in made if each["kind"] == kinds.PODS.name]
        pods = self._world.snapshot.pods.values()
        return next((pod for pod in pods if (pod.namespace, pod.name) == (copies.namespace, *names)), None)

    def _beside_others(self, pod: Pod, claims: Iterable[Claim]) -> _Answer:
        """Return where a pod goes whose claims are all allocated to pods before it."""
        capacity = self._decisions.candidates.capacity()
        capacity.drop(pod.uid)  # its claims have sent it there already
        fitting, _ = capacity.fitting((pod,))
        for claim in claims:
            allocation = self._world.snapshot.allocation(claim)
            if allocation is not None and allocation.node is not None and allocation.node not in fitting:
                return Reason(
                    "NotAllocated", f"claim {claim.key} is on node {allocation.node}, which has no room"
                )
        nodes = {each.node for claim in claims if (each := self._world.snapshot.allocation(claim))}
        node = next(iter(nodes - {None}), None) or min(fitting, default="")
        capacity.take(node, pod)
        return node, []

    def _demand(self, claims: Mapping[str, Claim], pod: Pod | None) -> WaitingDemand | Reason:
        demands, unservable = self._queue.demands()
        mine = [each for each in demands if any(claim.uid in claims for claim in each.claims)]
        if mine:
            return joined(mine)
        for found in unservable:
            about = found.pod is pod if isinstance(found, UnservablePod) else found.claim.uid in claims
            if about:
                return self._decisions.unservable(found)
        names = ", ".join(sorted({name for claim in claims.values() for name in claim.classes}))
        return Reason(
            "NotManaged",
            f"apportion does not manage DeviceClass {names}: kube-scheduler allocates its devices",
        )
