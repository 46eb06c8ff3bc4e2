"""Campaigns: carries out one plan at a time in the whole cluster, one move after the other.

In: a plan of a DefragPolicy, as its status has it. Out: pods evicted through the Eviction API, each once its new place is held and this is written down, and the next only when the
pod that came instead runs. What is done next follows from the status and the snapshot alone, so that a leader that is killed at any point is followed by
one that goes on: it holds the places again before its first pass, and asks for an eviction again only of the very pod that the status names.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime

import structlog

from apportion import metrics
from apportion.api.defrag import Campaign, CampaignMove, DefragPolicy, MovePhase
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.errors import ApiError, NotLeading, Unanswered
from apportion.scheduling.defrag import events
from apportion.scheduling.defrag.closing import NO_POLICY, closed
from apportion.scheduling.defrag.movables import Movables
from apportion.scheduling.defrag.places import HeldPlaces
from apportion.scheduling.defrag.records import unfinished, with_move
from apportion.scheduling.defrag.refusedwrites import RefusedWrites
from apportion.scheduling.preemption.evictions import Evicting

_log = structlog.get_logger()
_PAUSE = 0.5
"""Seconds between two looks at what is carried out."""
_PATIENCE = 30.0
"""Seconds for which a move that cannot begin is tried again: a budget counts the pod that came last only when it is ready."""
_SHOWN = 10.0
"""Seconds within which the watch shows that an evicted pod ends."""


class Campaigns:
    """What is carried out by this replica."""

    def __init__(
        self,
        snapshot: Snapshot,
        places: HeldPlaces,
        evictor: Evicting,
        recorder: events.Recorder,
        *,
        read: Callable[[DefragPolicy, Pod, str], Movables],
        write: Callable[[DefragPolicy, Campaign], Awaitable[bool]],
        now: Callable[[], datetime],
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`read` says whether a pod may move to a node for a policy; `write` writes a policy's status, and says whether it did; `wake` wakes the cycle."""
        self._snapshot = snapshot
        self._places = places
        self._evictor = evictor
        self._recorder = recorder
        self._read = read
        self._write = write
        self._now = now
        self._clock = clock
        self._wake = wake
        self._refused = RefusedWrites(clock)
        self._policy: DefragPolicy | None = None
        """The policy whose plan is carried out, as it was when that began, or this replica took it over; None until the plan is written down."""
        self._campaign: Campaign | None = None
        self._asked: tuple[str, float] = ("", 0.0)
        """The pod (UID) that was asked to go last, and when."""
        self._hindered: tuple[str, float] = ("", 0.0)
        """The pod (UID) that may not go now, and since when."""

    @property
    def carried_out(self) -> tuple[DefragPolicy, Campaign] | None:
        """The policy and what is being carried out of its plan; None: nothing is."""
        policy, what = self._policy, self._campaign
        return (policy, what) if policy is not None and what is not None and what.ended is None else None

    @property
    def busy(self) -> bool:
        """Whether a plan is being carried out."""
        return self._campaign is not None

    def resume(self) -> None:
        """Take over what a leader before has not ended, and hold its places; before the first pass, and whenever nothing is carried out."""
        left = () if self.busy else unfinished(self._snapshot.defrags.values())
        for policy in left:
            campaign = policy.status.campaign
            is_open = policy.metadata.uid not in self._snapshot.broken and not self._refused.has_ended(policy)
            if campaign is not None and is_open:
                self._take(policy, campaign)
                events.resumed(self._recorder, policy, campaign)
                _log.info("defrag.resumed", policy=policy.metadata.name)
                return

    async def start(self, campaign: Campaign, write: Callable[[], Awaitable[DefragPolicy | None]]) -> None:
        """Begin with a plan, if none is being carried out: its places are held from now on, which is written down first of all.

        `write` does so; it returns the policy as it is then, None where there is none any more.
        """
        if self.busy:
            return
        # Without a policy nobody is touched: that begins when the campaign is written down.
        self._take(None, campaign)
        try:
            self._policy = await write()
        finally:
            if self._policy is None:
                self._drop()

    async def run(self) -> None:
        """Act until cancelled; then the places are let go: this replica acts no more."""
        try:
            while True:
                await asyncio.sleep(_PAUSE)
                await self.act()
        finally:
            self._drop()

    async def act(self) -> None:
        """Do the next thing, if there is any."""
        policy, campaign = self._policy, self._campaign
        if policy is None or campaign is None:
            return
        try:
            if campaign.ended is not None:
                await self._finish(campaign)
                return
            move = next((each for each in campaign.moves if each.phase is not MovePhase.MOVED), None)
            if move is None:
                await self._end("Completed", f"all {len(campaign.moves)} moves are made")
            elif move.phase is MovePhase.WAITING:
                await self._begin(policy, campaign, move)
            else:
                self._wake()
                await self._follow(policy, campaign, move)
        except NotLeading:
            return
        except ApiError as error:
            _log.info("defrag.unanswered", policy=policy.metadata.name, error=str(error))
            if self._refused.are_final(error):
                self._give_up(policy, campaign, error)
        except Exception:  # noqa: BLE001 - whatever it is, it is reported; the next leader would meet it, too
            _log.exception("defrag.defect", policy=policy.metadata.name)
            self._let_go("Defect", "it cannot be carried out any further; the operator's log says more")

    async def _begin(self, policy: DefragPolicy, campaign: Campaign, move: CampaignMove) -> None:
        """Let the pod of a move go, if its new place is free for it and the server would let it go."""
        if reason := closed(policy, self._present(), campaign, self._now()):
            await self._end(*reason)
            return
        against = self._against(policy, move)
        pod = self._snapshot.pods.get(move.uid)
        if not against and pod is not None:
            refused = await self._evictor.refusal([pod])
            against = ("Blocked", f"pod {move.pod} is not evicted: {refused.reason}") if refused else None
        if against or pod is None:
            await self._hinder(move, against or _gone(move))
            return
        now = self._now().replace(microsecond=0)
        decided = with_move(campaign, move, phase=MovePhase.EVICTING, since=now)
        if await self._wrote(decided.model_copy(update={"evicted": now})):
            [decided_move] = [each for each in decided.moves if each.uid == move.uid]
            await self._evict(policy, decided_move)

    async def _evict(self, policy: DefragPolicy, move: CampaignMove) -> None:
        """Evict the pod of a move; everything is looked at once more, because others ran since."""
        pod = self._snapshot.pods.get(move.uid)
        if pod is None or pod.deleting or pod.finished:
            return  # somebody else ended it; its place is held for the one that comes instead
        if against := self._against(policy, move):
            await self._end(*against)
            return
        self._asked = move.uid, self._clock()
        try:
            refused = await self._evictor.evict(pod)
        except Unanswered as error:
            # It ends, or it does not: the watch shows which.
            _log.info("defrag.unanswered", pod=pod.key, error=str(error))
            return
        if refused is not None:
            await self._end("Blocked", f"pod {move.pod} is not evicted: {refused.reason}")
            return
        events.moved(self._recorder, policy, pod, move)
        _log.info("pod.moved", policy=policy.metadata.name, pod=pod.key, node=move.target.node)

    async def _follow(self, policy: DefragPolicy, campaign: Campaign, move: CampaignMove) -> None:
        """Wait until the pod that comes instead runs and the one that went is gone; or give up."""
        victim = self._snapshot.pods.get(move.uid)
        if victim is not None and not victim.deleting and not victim.finished:
            # A leader was killed before it asked, or the answer was lost: the same pod is asked again.
            if self._asked[0] == move.uid and self._clock() - self._asked[1] < _SHOWN:
                return
            if reason := closed(policy, self._present(), campaign, self._now()):
                await self._end(*reason)
            else:
                await self._evict(policy, move)
            return
        if victim is None or victim.finished:
            if _runs(self._places.placed(move, move.target)):
                if self._present() is None:
                    await self._end("PolicyChanged", NO_POLICY)
                elif await self._wrote(with_move(campaign, move, phase=MovePhase.MOVED)):
                    metrics.DEFRAG_MOVES.labels("moved").inc()
                return
            if _runs(self._places.placed(move, move.source)):
                await self._end("PlaceLost", f"{move.pod} could not have its new place, and has its old one")
                return
        since = move.since or campaign.began
        # A clock that was ahead may have written a time to come.
        if abs(self._now() - since) > policy.spec.move_timeout:
            waited = f"{policy.spec.move_timeout.total_seconds():.0f} s after the eviction of {move.pod}"
            text = f"{waited} no pod runs in its place; one that comes later is served as any other"
            await self._end("NoSuccessor", text)

    def _against(self, policy: DefragPolicy, move: CampaignMove) -> tuple[str, str] | None:
        """Return why the pod of a move may not go now."""
        pod = self._snapshot.pods.get(move.uid)
        if pod is None or pod.deleting or pod.finished:
            return _gone(move)
        found = self._read(policy, pod, move.target.node)
        if not found.movables:
            return "MayNotMove", f"pod {move.pod} stays: {', '.join(found.left_alone) or 'it has no claims'}"
        lost = self._places.lost(found, move)
        return ("PlaceLost", lost) if lost else None

    async def _hinder(self, move: CampaignMove, against: tuple[str, str]) -> None:
        """Try again for a while, then give up; nobody was touched."""
        if self._hindered[0] != move.uid:
            self._hindered = move.uid, self._clock()
        if against == _gone(move) or self._clock() - self._hindered[1] >= _PATIENCE:
            await self._end(*against)

    def _take(self, policy: DefragPolicy | None, campaign: Campaign | None) -> None:
        self._policy, self._campaign = policy, campaign
        self._hindered = ("", 0.0)
        self._refused.answered()
        if campaign is not None:
            self._places.hold(campaign)

    def _drop(self) -> None:
        self._policy = self._campaign = None
        self._places.release()

    async def _wrote(self, campaign: Campaign) -> bool:
        """Write down what is about to be done; False: somebody else wrote first, or the policy is gone."""
        present = self._present()
        if present is None or not await self._write(present, campaign):
            return False
        self._refused.answered()
        self._campaign = campaign
        self._places.hold(campaign)
        return True

    def _give_up(self, policy: DefragPolicy, campaign: Campaign, error: ApiError) -> None:
        """Let go of what the API server lets nobody carry out; or, where it has ended, write it down no more."""
        if campaign.ended is None:
            self._let_go("Refused", str(error))
        else:
            self._refused.end(policy, campaign)
            self._drop()

    async def _end(self, reason: str, message: str) -> None:
        """End, and write it down."""
        self._let_go(reason, message)
        if self._campaign is not None:
            await self._finish(self._campaign)

    def _let_go(self, reason: str, message: str) -> None:
        """End: everybody else may have the places from now on. The next act writes it down."""
        policy, campaign = self._policy, self._campaign
        if policy is None or campaign is None or campaign.ended is not None:
            return
        now = self._now().replace(microsecond=0)
        ended = campaign.model_copy(update={"ended": now, "reason": reason, "message": message[:1024]})
        self._campaign = ended
        self._places.release()
        self._wake()
        if reason != "Completed":
            metrics.DEFRAG_MOVES.labels("given up").inc()
        events.ended(self._recorder, policy, ended)
        _log.info("defrag.ended", policy=policy.metadata.name, reason=reason, message=message)

    async def _finish(self, ended: Campaign) -> None:
        """Write down that it has ended; until that is done no other plan is begun."""
        present = self._present()
        if present is None or await self._write(present, ended):
            self._drop()

    def _present(self) -> DefragPolicy | None:
        """Return the policy as it is now; None: it is gone, or cannot be read."""
        uid = self._policy.metadata.uid if self._policy is not None else ""
        return self._snapshot.defrags.get(uid) if uid not in self._snapshot.broken else None


def _gone(move: CampaignMove) -> tuple[str, str]:
    return "PodGone", f"pod {move.pod} is gone, or ends, by itself"


def _runs(pod: Pod | None) -> bool:
    return pod is not None and pod.node is not None and pod.phase in {"Running", "Succeeded"}
