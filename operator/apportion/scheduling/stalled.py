"""StalledAllocations: allocations that live pods name and that no scheduler takes up, although others wait for the devices.

In: the snapshot, the demands that wait, the clock. Out: the claims to clear. A pod can be kept from starting by what we do
not decide: a volume claim that does not exist, another driver's devices, a scheduler that is not there, another pod's end, a webhook that lets nobody remove its gate. kube-scheduler
would hold nothing for such a pod, so its devices go to others after the policy's unusedTimeout, and its claim then
rests (`Exclusions.rest`), for twice as long each time. A claim that we reserved ahead loses its reservation after that time, and
its devices after as long again: a scheduler that takes the pod has to reserve the claim then (ADR 23).
"""

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain, product
from typing import TypeAlias, TypeVar

import structlog

from apportion.allocator.allocate import catching_up, decide, is_slow
from apportion.allocator.demand import Demand
from apportion.allocator.policyterms import terms_of
from apportion.allocator.terms import Terms
from apportion.api.contract import GATE
from apportion.cluster.snapshot import Snapshot
from apportion.dra.claim import Claim
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.candidates import Candidates
from apportion.scheduling.clearing import keeping
from apportion.scheduling.consumers import unbound_user
from apportion.scheduling.exclusions import Exclusions
from apportion.scheduling.followedclaims import FollowedClaims
from apportion.scheduling.onepod import OnePod
from apportion.scheduling.pace import Pace
from apportion.scheduling.sharing import ShutOut
from apportion.scheduling.waiting import (
    MOST_PODS,
    WaitingDemand,
    claims_of,
    has_devices,
    immediate,
    is_current,
)

_log = structlog.get_logger()
_PAUSE = 10.0
"""Seconds until it is looked again whether others could use an allocation."""
_ASKED = 8
"""How many demands are asked about a node: the first of the queue, and as many of the others, which take turns."""
_NODES = 8
"""How many nodes are looked at in a pass."""
_LONGEST = 0.1
"""Seconds in a pass after which no question begins that needs a long search."""
_Asked: TypeAlias = tuple[WaitingDemand, Demand, Terms]
"""Who waits, and what is asked for it about a node."""
T = TypeVar("T")


class StalledAllocations:
    """Watches how long allocations of live pods stay unreserved."""

    def __init__(
        self,
        snapshot: Snapshot,
        candidates: Candidates,
        exclusions: Exclusions,
        clock: Callable[[], float],
        *,
        manager: str,
        is_evaluated: Callable[[WaitingDemand], bool],
        ungating: Callable[[str], bool],
        refused: Callable[[], frozenset[str]] = frozenset,
        lifted: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """`manager` is our field manager: only what we wrote is cleared. `lifted`: the state shows what is held by claims within.

        `is_evaluated` says whether a demand's costly selectors have been evaluated: only then is the allocator asked about it. `ungating` says of
        which pods (UIDs) the gate is being removed, `refused` returns those of which nobody lets us remove it.
        """
        self._is_evaluated = is_evaluated
        self._lifted = lifted
        self._snapshot = snapshot
        self._candidates = candidates
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
        self._last = ""
        """The demand (key) that was asked last of those behind the first."""
        self._searched = 0.0
        """Seconds for which nodes were searched in this pass."""
        self._slow = 0
        """How many questions needed that so far: those that do take turns."""

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
        waiting = (yield from self._waiting(demands)) if nodes else []
        found: list[Claim] = []
        self._searched = 0.0
        for node in nodes:
            self._asked[node] = now
            stalled: list[Claim] = []
            for each in by_node[node].values():
                yield
                # Whether pods wait for others' end may change without a change of their claims.
                if self._are_as_they_were((each,)) and (self._is_stalled(each) or self._is_behind(each)):
                    stalled.append(each)
            found += yield from self._wanted(node, stalled, waiting)
        found = [claim for claim in found if self._are_as_they_were((claim,))]
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

    def _waiting(self, demands: Iterable[WaitingDemand]) -> Generator[None, None, list[WaitingDemand]]:
        """Return demands that were not served in this pass, without those that wait behind the others themselves: the first, and those whose turn it is."""
        known = tuple(demands)
        first = yield from self._unserved(known)
        numbers = {demand.key: number for number, demand in enumerate(known)}
        start = numbers.get(self._last, -1) + 1
        others = yield from self._unserved(
            chain(known[start:], known[:start]), {demand.key for demand in first}
        )
        self._last = others[-1].key if others else ""
        return [*first, *others]

    def _unserved(
        self, demands: Iterable[WaitingDemand], but: Collection[str] = ()
    ) -> Generator[None, None, list[WaitingDemand]]:
        """Return the first of these demands that are asked, without some (keys)."""
        found: list[WaitingDemand] = []
        pace = Pace()
        for demand in demands:
            if len(found) == _ASKED:
                break
            if pace.rests():
                yield
            if demand.key not in but and self._is_unserved(demand):
                found.append(demand)
        return found

    def _is_unserved(self, demand: WaitingDemand) -> bool:
        return not any(
            self._snapshot.allocation(claim) is not None or self._exclusions.rests(claim.uid)
            for claim in demand.claims
        ) and self._is_evaluated(demand)

    def _wanted(
        self, node: str, stalled: Sequence[Claim], waiting: Sequence[WaitingDemand]
    ) -> Generator[None, None, list[Claim]]:
        """Return the stalled claims of a node (empty: of several), the longest stalled first, without whose devices one of these is served.

        Yields where others may run; the claims have their devices then.
        """
        quick, slow = list[_Asked](), list[_Asked]()
        for demand in waiting:
            yield
            if (ask := self._ask(demand, node, stalled)) is not None:
                terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
                searches = partial(is_slow, self._snapshot.state, ask, terms)
                (slow if _unless_broken(ask, searches) else quick).append((demand, ask, terms))
        freed = [claim for claim in stalled if self._published(claim)] if quick or slow else []
        for number in range(1, len(freed) + 1):
            yield
            if self._are_as_they_were(freed) and self._is_served(quick, freed[:number]):
                return freed[:number]
        start = self._slow % len(slow) if slow else 0
        for number, each in product(range(1, len(freed) + 1), slow[start:] + slow[:start]):
            if self._searched >= _LONGEST:
                break
            self._slow += 1
            if (yield from self._is_served_after_search(each, freed[:number])):
                return freed[:number]
        return []

    def _is_served(self, asked: Iterable[_Asked], freed: Sequence[Claim]) -> bool:
        """Say whether one of these would be served without these claims."""
        with self._without(freed):
            return any(
                self._serves(ask, terms) for demand, ask, terms in asked if is_current(demand, self._snapshot)
            )

    def _is_served_after_search(self, asked: _Asked, freed: Sequence[Claim]) -> Generator[None, None, bool]:
        """Say the same of one that needs a long search, which is made in steps; no, where something of it changed meanwhile."""
        demand, ask, terms = asked
        state, left = self._snapshot.state, len(ask.nodes or ())
        while is_current(demand, self._snapshot) and self._are_as_they_were(freed):
            began = self._clock()
            with self._without(freed):
                steps = catching_up(state, ask, terms, supposed=True)
                is_paused = _unless_broken(ask, partial(next, steps, None))
                left -= is_paused is False
                ended = is_paused is None or not left
                served = ended and self._serves(ask, terms)
            self._searched += self._clock() - began
            if ended:
                return served
            yield
        return False

    def _serves(self, ask: Demand, terms: Terms) -> bool:
        return bool(_unless_broken(ask, partial(decide, self._snapshot.state, ask, terms)))

    @contextmanager
    def _without(self, claims: Iterable[Claim]) -> Iterator[None]:
        """Let the state show neither what these claims have nor what is held, within a block."""
        state = self._snapshot.state
        with self._lifted():
            for claim in claims:
                state.release(claim.uid)
            try:
                yield
            finally:
                for claim in claims:
                    if claim.allocation is not None:
                        state.hold(claim.uid, claim.allocation.results)

    def _are_as_they_were(self, claims: Iterable[Claim]) -> bool:
        return all(self._snapshot.claims.get(claim.uid) is claim for claim in claims)

    def _ask(self, demand: WaitingDemand, node: str, stalled: Sequence[Claim]) -> Demand | None:
        """Return what to ask about a node, or about all nodes that reach devices of allocations which name none."""
        if node:
            return self._candidates.on_node(demand, node)
        results = [
            each for claim in stalled if claim.allocation is not None for each in claim.allocation.results
        ]
        nodes = {name for each in results for name in self._snapshot.state.nodes_of(each.device)}
        return self._candidates.ask_with_victims(demand, self._candidates.capacity(), nodes)

    def _published(self, claim: Claim) -> bool:
        """Say whether slices have all of its devices: what a withdrawn device consumes is known only while it is held."""
        results = claim.allocation.results if claim.allocation is not None else ()
        return all(self._snapshot.devices.device(result.device) is not None for result in results)


def _unless_broken(ask: Demand, answer: Callable[[], T]) -> T | None:
    """Return an answer about a demand; None, where deciding breaks down: that is met by the walk through the queue, too."""
    try:
        return answer()
    except BrokenInput:
        return None
    except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
        _log.exception("stalled.defect", claims=[claim.key for claim in ask.claims])
        return None
