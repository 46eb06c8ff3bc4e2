"""StalledAllocations: allocations that live pods name and that no scheduler takes up, although others wait for the devices.

In: the snapshot, the demands that wait, the clock. Out: the claims to clear. A pod can be kept from starting by what we do
not decide: a volume claim that does not exist, another driver's devices, a scheduler that is not there, another pod's end, a webhook that lets nobody remove its gate. kube-scheduler
would hold nothing for such a pod, so its devices go to others after the policy's unusedTimeout, and its claim then
rests (`Exclusions.rest`), for twice as long each time. A claim that we reserved ahead loses its reservation after that time, and
its devices after as long again: a scheduler that takes the pod has to reserve the claim then (ADR 23).
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import chain

from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.clearing.clearing import keeping
from apportion.scheduling.clearing.wantedclaims import WantedClaims
from apportion.scheduling.demands.consumers import unbound_user
from apportion.scheduling.demands.followedclaims import FollowedClaims
from apportion.scheduling.demands.onepod import OnePod
from apportion.scheduling.demands.waiting import MOST_PODS, WaitingDemand, claims_of, has_devices, immediate
from apportion.scheduling.pace import Pace
from apportion.scheduling.room.sharing import ShutOut

_PAUSE = 10.0
"""Seconds until it is looked again whether others could use an allocation."""
_NODES = 8
"""How many nodes are looked at in a pass."""


class StalledAllocations:
    """Watches how long allocations of live pods stay unreserved."""

    def __init__(
        self,
        snapshot: Snapshot,
        wanted: WantedClaims,
        exclusions: Exclusions,
        clock: Callable[[], float],
        *,
        manager: str,
        ungating: Callable[[str], bool],
        refused: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """`wanted` says whose devices others wait for. `manager` is our field manager: only what we wrote is cleared.

        `ungating` says of which pods (UIDs) the gate is being removed, `refused` returns those of which nobody lets us remove it.
        """
        self._snapshot = snapshot
        self._exclusions = exclusions
        self._clock = clock
        self._manager = manager
        self._ungating = ungating
        self._refused = refused
        self._known_refused: frozenset[str] = frozenset()
        """Of the pods for which claims were looked at."""
        self._stalled = FollowedClaims(snapshot, clock, self._is_stalled)
        self._behind = FollowedClaims(snapshot, clock, self._is_behind)
        self._hosts = -1
        """How far the changes of nodes were read."""
        self._by_room: set[str] = set()
        """Claims (UIDs) of gated pods that share claims: whether they start depends on the room of a node."""
        self._classes: object = None
        """The managed and the existing classes by which claims were looked at."""
        self._asked: dict[str, float] = {}
        """When each node was last asked about: whether others could use its stalled allocations."""
        self._wanted = wanted

    def begin_anew(self) -> None:
        """Count the time from now on."""
        self._stalled.begin_anew()
        self._behind.begin_anew()

    def due(self, demands: Iterable[WaitingDemand]) -> Generator[None, None, list[Claim]]:
        """Return the claims whose devices others wait for, and let each rest; `demands`: what waited in this pass. Yields where others may run."""
        now = self._clock()
        yield from self.steps()
        self._exclusions.forget_claims(self._may_stall)
        by_node: dict[str, dict[str, Claim]] = {}
        pace = Pace()
        for claim, since in chain(self._stalled.items(), self._behind.items()):
            if pace.rests():
                yield
            if claim.allocation is None or now - since < self._timeout(claim):
                continue
            if not any(self._ungating(pod.uid) for pod in self._snapshot.users(claim)):
                by_node.setdefault(claim.allocation.node or "", {})[claim.uid] = claim
        self._asked = {node: at for node, at in self._asked.items() if node in by_node}
        nodes = [node for node in by_node if now - self._asked.get(node, -_PAUSE) >= _PAUSE][:_NODES]
        waiting = (yield from self._wanted.waiting(demands)) if nodes else []
        found: list[Claim] = []
        for node in nodes:
            self._asked[node] = now
            stalled: list[Claim] = []
            for each in by_node[node].values():
                yield
                # Whether pods wait for others' end may change without a change of their claims.
                if self._wanted.are_as_they_were((each,)) and (
                    self._is_stalled(each) or self._is_behind(each)
                ):
                    stalled.append(each)
            found += yield from self._wanted.of(node, stalled, waiting)
        found = [claim for claim in found if self._wanted.are_as_they_were((claim,))]
        for claim in found:
            self._exclusions.rest(claim.uid, self._timeout(claim))
        return found

    def steps(self) -> Iterator[None]:
        """Look at the claims that changed, at all where other classes are there, and where room or what is refused changed at those for whose pods it counts; yields where others may run."""
        snapshot, managed = self._snapshot, self._snapshot.managed
        classes = frozenset(managed.policies), managed.known
        if classes != self._classes:
            self._classes = classes
            self._stalled.doubt()
        yield from self._stalled.steps()
        yield from self._behind.steps()
        hosts, self._hosts = self._hosts, snapshot.changes.hosts.end
        for claim in snapshot.claims_of(self._by_room) if hosts != self._hosts else ():
            yield
            self._stalled.look(claim)
        refused, before = self._refused(), self._known_refused
        self._known_refused = refused
        for pod in snapshot.pods_of(refused ^ before):
            for named in snapshot.named_claims(pod):
                if named is not None:
                    self._stalled.look_anew(named)

    def _timeout(self, claim: Claim) -> float:
        timeout = self._snapshot.managed.policy(claim).unused_timeout
        return max(timeout, keeping(claim, timeout)).total_seconds()

    def _may_stall(self, uid: str) -> bool:
        claim = self._snapshot.claims.get(uid)
        return claim is not None and not self._is_in_use(claim)

    def _is_in_use(self, claim: Claim) -> bool:
        return bool(claim.reserved_for) and unbound_user(claim, self._snapshot) is None

    def _is_stalled(self, claim: Claim) -> bool:
        """Say whether we allocated it, live pods name it, and none of them is bound or about to start; of more than can reserve it the first are asked."""
        self._by_room.discard(claim.uid)
        pods = self._unbound(claim)
        if not pods:
            return False
        shut_out = ShutOut(self._snapshot)
        for pod in pods[:MOST_PODS]:
            starts = GATE in pod.gates and pod.uid not in self._known_refused
            claims = claims_of(pod, self._snapshot) if starts else None
            # All is there but the partition: it is being cut.
            if claims is not None and all(has_devices(each, self._snapshot) for each in claims):
                if any(map(shut_out.is_shared, claims)):
                    self._by_room.add(claim.uid)
                if pod not in shut_out:
                    return False
        return True

    def _is_behind(self, claim: Claim) -> bool:
        """Say whether we allocated it, and the live pods that name it wait behind their gates for the end of another, which has a network device of theirs."""
        pods, one_pod = self._unbound(claim), OnePod(self._snapshot, self._ungating)
        return bool(pods) and all(
            GATE in pod.gates and not self._ungating(pod.uid) and one_pod.taken(pod) is not None
            for pod in pods[:MOST_PODS]
        )

    def _unbound(self, claim: Claim) -> list[Pod]:
        """Return the live pods that name a claim which we allocated for pods; none if one of them is bound, or may be."""
        if (
            claim.allocated_by != self._manager
            or immediate(claim)
            or claim.deleting
            or self._is_in_use(claim)
        ):
            return []
        pods = [pod for pod in self._snapshot.users(claim) if not pod.finished and not pod.deleting]
        return [] if any(pod.node is not None for pod in pods) else pods
