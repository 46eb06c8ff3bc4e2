"""Places: the devices of the moves that are carried out, held from before the first eviction until the end, and given to who comes instead.

In: what is carried out, the demands that wait in a pass. Out: a holder of these devices in the allocator's state (ADR 4), under a key of its own: each demand that is
asked about finds them taken. Only the pod that comes instead of the one that went is asked about without it, and about nothing else: as long as its move goes on
it takes no other devices. It gets the new place; where that is lost, the old one; where neither suits it, it waits as any other.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import structlog

from apportion.allocator.allocate import decide
from apportion.allocator.defrag.replay import Replay
from apportion.allocator.policyterms import terms_of
from apportion.api.defrag import Campaign, CampaignMove, DefragPlace, MovePhase
from apportion.api.hold import HoldPurpose, hold_key, hold_name
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.pod import Pod
from apportion.errors import BrokenInput
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.defrag.movables import Movables
from apportion.scheduling.defrag.records import devices_of, held_by
from apportion.scheduling.demands.waiting import WaitingDemand, is_current
from apportion.scheduling.quota.overlimit import OverLimit
from apportion.scheduling.room.hostcapacity import HostCapacity

_log = structlog.get_logger()
KEY = hold_key(hold_name(HoldPurpose.MOVE))
"""Key of the holder in the allocator's state."""
_HELD = partial(DeviceResult, "defrag")
"""Returns what holds a device."""
_PATIENCE = 10.0
"""Seconds for which a pod that came instead is refused its new place before it gets the old one."""


class HeldPlaces:
    """The places of one plan that is carried out, or none."""

    def __init__(
        self,
        decider: Decider,
        clock: Callable[[], float],
        is_evaluated: Callable[[WaitingDemand], bool],
        is_awaited: Callable[[WaitingDemand], bool],
    ) -> None:
        """`is_evaluated` says whether a demand's costly selectors have been evaluated; `is_awaited`, whether they are to be, and has that done."""
        self._decider = decider
        self._is_evaluated = is_evaluated
        self._is_awaited = is_awaited
        self._snapshot = decider.snapshot
        self._clock = clock
        self._campaign: Campaign | None = None
        self._refused: tuple[str, float] = ("", 0.0)
        """The pod (UID) that was refused its new place, and since when."""

    def hold(self, campaign: Campaign) -> None:
        """Keep all places from others; those of another plan are let go."""
        self._campaign = campaign
        self._snapshot.state.hold(KEY, held_by(campaign))

    def release(self) -> None:
        """Let others have all of them."""
        if self._campaign is not None:
            self._campaign = None
            self._decider.set_aside = frozenset()
            self._snapshot.state.release(KEY)
            self._snapshot.retry_epoch += 1

    def lost(self, found: Movables, move: CampaignMove) -> str:
        """Return why a pod need not go, as text for people: it would not get its new place, or who came since the plan was made uses what it would free; `found`: the pod with its claims."""
        with self._lifted():
            if not self._fits(found, move):
                return f"the place on node {move.target.node} does not suit pod {move.pod} any more"
            taken = self._taken()
        return f"others use what {taken} needs, which would not be free after the moves" if taken else ""

    def _taken(self) -> DeviceId | None:
        """Return a device that is to be free in the end and would not be if all moves that are left were made now; None: all would be. Places are lifted."""
        campaign, snapshot = self._campaign, self._snapshot
        moves = campaign.moves if campaign is not None else ()
        left = [each for each in moves if each.phase is not MovePhase.MOVED]
        going = [
            (claim.uid, claim.allocation.results)
            for pod in snapshot.pods_of(each.uid for each in left)
            for claim in snapshot.named_claims(pod)
            if claim is not None and claim.allocation is not None
        ]
        coming = tuple(_HELD(device) for each in left for device in devices_of(each.target.devices))
        state = snapshot.state
        with Replay(state, {}) as replay:
            state.release_all(key for key, _ in going)
            replay.keep(f"{KEY}/places", coming)
            try:
                for device in devices_of(dict.fromkeys(campaign.freed if campaign is not None else ())):
                    if not self._is_open(device):
                        return device
                    replay.keep(f"{KEY}/{device}", (_HELD(device),))
            finally:
                state.hold_all(going)
        return None

    def _is_open(self, device: DeviceId) -> bool:
        views = [self._snapshot.state.view(node) for node in self._snapshot.state.nodes_of(device)]
        return any((index := view.find(device)) is not None and view.open >> index & 1 for view in views)

    def _fits(self, found: Movables, move: CampaignMove) -> bool:
        """Say whether the allocator would move a pod as planned now; `found`: the pod with its claims. Places are lifted."""
        devices = devices_of(move.target.devices)
        [movable] = found.movables
        terms = terms_of(self._snapshot.managed.policy(found.claims[movable.key][0]))
        try:
            with Replay(self._snapshot.state, found.room) as replay:
                made = replay.move(movable, terms, nodes=[move.target.node], devices=devices)
        except BrokenInput:
            return False
        return made is not None and {*made.devices} == {*devices}

    def placed(self, move: CampaignMove, place: DefragPlace) -> Pod | None:
        """Return the pod of the same controller that came instead and has a place, decisions that are being written included."""
        for device in devices_of(place.devices[:1]):
            for key in self._snapshot.state.holders(device):
                claim = self._snapshot.claims.get(key)
                for pod in self._snapshot.users(claim) if claim is not None else ():
                    if _comes_instead(pod, move):
                        return pod
        return None

    def begin(self, demands: Iterable[WaitingDemand]) -> None:
        """Start a pass: serve the pod that came instead before the queue; `demands`: all that wait."""
        self._decider.set_aside = frozenset()
        move = self._current()
        if move is None:
            return
        waiting = [each for each in demands if len(each.pods) == 1 and _comes_instead(each.pods[0], move)]
        placed = [self.placed(move, place) for place in (move.target, move.source)]
        served = {pod.uid for pod in placed if pod is not None}
        # One that waits though it has a place: the write for another of its claims failed.
        if not waiting or served - {each.pods[0].uid for each in waiting}:
            return
        successor = max(
            waiting, key=lambda each: (each.pods[0].uid in served, each.pods[0].created, each.key)
        )
        if not self._is_evaluated(successor) and not self._is_awaited(successor):
            return  # the queue's walk says why it gets nothing
        # Also where it is still to be evaluated: that may end before the walk reaches it.
        self._decider.set_aside = frozenset({successor.key})
        if (
            self._is_evaluated(successor)
            and is_current(successor, self._snapshot)
            and not self._decider.writes.paused(successor.key)
        ):
            self._serve(successor, move)

    def _current(self) -> CampaignMove | None:
        """Return the move whose pod goes, or is gone; None: there is none, or nobody has touched its pod yet."""
        moves = self._campaign.moves if self._campaign is not None else ()
        move = next((each for each in moves if each.phase is not MovePhase.MOVED), None)
        if move is None or move.phase is not MovePhase.EVICTING:
            return None
        pod = self._snapshot.pods.get(move.uid)
        return move if pod is None or pod.deleting or pod.finished else None

    def _serve(self, demand: WaitingDemand, move: CampaignMove) -> None:
        try:
            self._give_a_place(demand, move)
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
            _log.exception("move.defect", demand=demand.key)

    def _give_a_place(self, demand: WaitingDemand, move: CampaignMove) -> None:
        uid = demand.pods[0].uid
        capacity = self._decider.candidates.capacity()
        if self._grant(demand, move.target, capacity):
            return
        if self._refused[0] != uid:
            self._refused = uid, self._clock()
        if self._clock() - self._refused[1] < _PATIENCE or self._grant(demand, move.source, capacity):
            return
        gone = self._snapshot.pods.get(move.uid)
        if gone is None or gone.finished:
            # Neither place suits it, as where its controller's template was changed: it is served, or told why not, as any other.
            self._decider.set_aside = frozenset()

    def _grant(self, demand: WaitingDemand, place: DefragPlace, capacity: HostCapacity) -> bool:
        """Give a demand just these devices; says whether it could."""
        decider, state = self._decider, self._snapshot.state
        try:
            decider.quotas.check(demand)
            asked = decider.candidates.ask(demand, capacity)
            if isinstance(asked, str) or place.node not in (asked.nodes or ()):
                return False
            wanted, view = {*devices_of(place.devices)}, state.view(place.node)
            others = {view.id_of(index) for index in range(len(view.devices))} - wanted
            here = replace(asked, nodes=frozenset({place.node}), excluded=asked.excluded | others)
            terms = terms_of(self._snapshot.managed.policy(demand.claims[0]))
            with self._lifted():
                found = decide(state, here, terms, prefer=decider.candidates.idle)
                if found is None:
                    return False
                decision = decider.admissible.of(demand, here, terms, found, None)
        except (BrokenInput, OverLimit):
            return False
        decider.learn(demand, decision)
        decider.grant(demand, decision, capacity)
        return True

    @contextmanager
    def _lifted(self) -> Iterator[None]:
        """Let the one that a place is for be asked about."""
        self._snapshot.state.release(KEY)
        try:
            yield
        finally:
            if self._campaign is not None:
                self._snapshot.state.hold(KEY, held_by(self._campaign))


def _comes_instead(pod: Pod, move: CampaignMove) -> bool:
    """Say whether a pod is of the same controller as the one that goes, and in its place."""
    namespace, _, name = move.pod.partition("/")
    return (
        pod.uid != move.uid
        and pod.namespace == namespace
        and pod.controller is not None
        and pod.controller.uid == move.controller
        and (not move.same_name or pod.name == name)
        and not pod.deleting
        and not pod.finished
    )
