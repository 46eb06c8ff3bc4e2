"""DefragPolicies: makes a plan in each window of a policy, and has it carried out where the policy says so.

In: the policies, the snapshot, the time. Out: plans, conditions and Events; campaigns (`Campaigns`), one at a time in the whole cluster. A plan is made in a thread, from a picture that
is taken on the event loop: who may move is read in slices, and the rest are references.
"""

import asyncio
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

import structlog

from apportion.api.conditions import same
from apportion.api.defrag import Campaign, DefragMode, DefragPolicy
from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS
from apportion.cluster.snapshot import Snapshot
from apportion.dra.pod import Pod
from apportion.errors import ApiError, BrokenInput, Missing, NotLeading, Overtaken
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.defrag import events
from apportion.scheduling.defrag.campaigns import Campaigns
from apportion.scheduling.defrag.goals import check_goal
from apportion.scheduling.defrag.movables import MovableReader, Movables, Scope
from apportion.scheduling.defrag.places import HeldPlaces
from apportion.scheduling.defrag.planning import Picture, Planned, Verdict
from apportion.scheduling.defrag.records import campaign_of, plan_record
from apportion.scheduling.defrag.schedule import Schedule
from apportion.scheduling.defrag.status import (
    begun,
    campaign_status,
    planned_status,
    policy_status,
    summary,
)
from apportion.scheduling.preemption.evictions import Evicting

_log = structlog.get_logger()
_LOOK = 1.0
"""Seconds between two looks at all policies."""
_REST = 20.0
"""Seconds for which a policy is left alone whose status could not be written: a plan that is made anew takes seconds of computation."""
_SLICE, _PAUSE = 0.02, 0.005
"""Seconds of work on the event loop, and what others get in between."""


class DefragPolicies:
    """Follows all policies while this replica leads."""

    def __init__(
        self,
        client: Client,
        snapshot: Snapshot,
        decider: Decider,
        places: HeldPlaces,
        evictor: Evicting,
        *,
        fence: Callable[[], None],
        now: Callable[[], datetime],
        clock: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        """`wake` wakes the cycle."""
        self._client = client
        self._snapshot = snapshot
        self._decider = decider
        self._recorder = decider.recorder
        self._fence = fence
        self._now = now
        self._clock = clock
        self._programs = Programs()
        self._left_alone: dict[str, float] = {}
        """Until when nobody looks at policies (UIDs)."""
        self.campaigns = Campaigns(
            snapshot,
            places,
            evictor,
            decider.recorder,
            read=self._read,
            write=self._write_campaign,
            now=now,
            clock=clock,
            wake=wake,
        )

    def resume(self) -> None:
        """Take over what a leader before has not ended; before the first pass."""
        self.campaigns.resume()

    async def run(self) -> None:
        """Act until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.campaigns.run())
            group.create_task(self._look())

    async def _look(self) -> None:
        while True:
            await self.act()
            await asyncio.sleep(_LOOK)

    async def act(self) -> None:
        """Look once at all policies; what is wrong with one keeps no other."""
        self.campaigns.resume()
        for policy in sorted(self._snapshot.defrags.values(), key=lambda each: each.metadata.name):
            uid, now = policy.metadata.uid, self._clock()
            if uid in self._snapshot.broken or now < self._left_alone.get(uid, now):
                continue
            try:
                await self._follow(policy)
            except NotLeading:
                return
            except (Overtaken, Missing) as error:
                # Somebody else wrote first: the watch will show the policy as it is now, or its deletion.
                _log.debug("defrag.overtaken", policy=policy.metadata.name, error=str(error))
            except ApiError as error:
                _log.warning("defrag.write_failed", policy=policy.metadata.name, error=str(error))
                self._leave_alone(uid)
            except Exception:  # noqa: BLE001 - whatever it is, it is reported, and others go on
                _log.exception("defrag.defect", policy=policy.metadata.name)
                self._leave_alone(uid)

    def _leave_alone(self, uid: str) -> None:
        """Look at a policy (UID) no more for a while."""
        now = self._clock()
        self._left_alone = {each: until for each, until in self._left_alone.items() if until > now}
        self._left_alone[uid] = now + _REST

    async def _follow(self, policy: DefragPolicy) -> None:
        now = self._now()
        try:
            schedule = Schedule.of(policy.spec, now)
            check_goal(policy.spec, self._snapshot.state.classes, self._programs)
        except BrokenInput as error:
            events.broken(self._recorder, policy, f"DefragPolicy {policy.metadata.name}: {error}")
            await self._refresh(policy, policy_status(policy, now, next_schedule=None, flaw=error))
            return
        opened = schedule.opened(now)
        last = policy.status.last_schedule
        # What lies further ahead than a window was written by a clock that was wrong.
        is_new = opened is not None and (last is None or opened > last or last - now > policy.spec.window)
        if opened is not None and is_new and not self._rests(policy, now):
            await self._plan(policy, schedule, opened)
        else:
            await self._refresh(policy, policy_status(policy, now, next_schedule=schedule.after(now)))

    def _rests(self, policy: DefragPolicy, now: datetime) -> bool:
        """Say whether no plan is made for a policy now: another one is carried out, or it evicted a moment ago."""
        if policy.spec.mode is not DefragMode.EVICT:
            return False
        evicted = policy.status.campaign.evicted if policy.status.campaign is not None else None
        return self.campaigns.busy or (evicted is not None and abs(now - evicted) < policy.spec.cooldown)

    # Planning. --------------------------------------------------------------------------------------------------

    async def _plan(self, policy: DefragPolicy, schedule: Schedule, opened: datetime) -> None:
        """Make the plan of a window, and write it down; begin to carry it out where that is wanted."""
        planned, found = await self._made(policy)
        now = self._now().replace(microsecond=0)
        text = summary(planned)
        if planned.verdict is Verdict.PLANNED:
            events.planned(self._recorder, policy, text)
        campaign, plan = None, planned.plan
        if plan is not None and planned.verdict is Verdict.PLANNED and self._may_begin(policy):
            campaign = campaign_of(plan, found, now, opened + policy.spec.window, policy)
        after = begun(policy, campaign) if campaign is not None else policy
        status = policy_status(after, now, next_schedule=schedule.after(now)) | planned_status(
            after, planned, plan_record(plan, found, now), opened, now
        )
        if campaign is None:
            await self._write(policy, status)
        else:
            status |= campaign_status(campaign)
            await self.campaigns.start(campaign, partial(self._write, policy, status))
        _log.info("defrag.planned", policy=policy.metadata.name, verdict=str(planned.verdict), plan=text)

    def _may_begin(self, policy: DefragPolicy) -> bool:
        return policy.spec.mode is DefragMode.EVICT and not self.campaigns.busy

    async def _made(self, policy: DefragPolicy) -> tuple[Planned, Movables]:
        reader, found = self._reader(policy), Movables()
        ends = self._clock() + _SLICE
        reading = reader.gather()
        while True:
            try:
                next(reading)
            except StopIteration as end:
                found = end.value
                break
            if self._clock() >= ends:
                await asyncio.sleep(_PAUSE)
                ends = self._clock() + _SLICE
        nodes = reader.scope.nodes or frozenset()
        picture = Picture.of(policy.spec, self._snapshot, nodes, found.movables, found.room)
        try:
            return await asyncio.to_thread(picture.plan), found
        except Exception:  # noqa: BLE001 - whatever it is, it is reported, and the next window tries again
            _log.exception("defrag.defect", policy=policy.metadata.name)
            return Planned(Verdict.DEFECT, "planning failed; the operator's log says more"), found

    def _reader(self, policy: DefragPolicy, *, least_age: float | None = None) -> MovableReader:
        spec = policy.spec
        scope = Scope(
            nodes=frozenset(
                node.name
                for node in self._snapshot.nodes.values()
                if not node.unschedulable and spec.node_selector.matches(node.labels)
            ),
            unattended=True,
            least_age=spec.cooldown.total_seconds() if least_age is None else least_age,
            contended=self._contended(),
        )
        return MovableReader(self._snapshot, self._decider.candidates, self._now().timestamp(), scope)

    def _contended(self) -> frozenset[str]:
        """Return the namespaces of quotas for whose limits somebody waits: what a pod gives back there, another one may take."""
        claims, of = self._snapshot.claims, self._snapshot.quota_index.assignment.of
        waiting = {claims[key].namespace for key in self._decider.quotas.over if key in claims}
        quotas = {of[namespace] for namespace in waiting if namespace in of}
        return frozenset(namespace for namespace, quota in of.items() if quota in quotas)

    def _read(self, policy: DefragPolicy, pod: Pod, target: str) -> Movables:
        return self._reader(policy, least_age=0.0).of_pod(pod, target)

    # Writing. ---------------------------------------------------------------------------------------------------

    async def _refresh(self, policy: DefragPolicy, status: dict[str, Any]) -> None:
        if not same(policy.status.to_json(), status):
            await self._write(policy, status)

    async def _write_campaign(self, policy: DefragPolicy, campaign: Campaign) -> bool:
        """Write what is being done; says whether it is written. Raises NotLeading and ApiError."""
        try:
            return await self._write(policy, campaign_status(campaign)) is not None
        except (Overtaken, Missing):
            return False

    async def _write(self, policy: DefragPolicy, status: dict[str, Any]) -> DefragPolicy | None:
        """Write parts of a status; returns the policy as it is then, None where it is gone or cannot be read."""
        self._fence()
        metadata = policy.metadata
        body = {"metadata": {"resourceVersion": metadata.resource_version}, "status": status}
        made = await self._client.patch(DEFRAGS, metadata.name, body, sub="status")
        # Observed at once: a look before the watch shows our own write would repeat it.
        self._snapshot.observe(DEFRAGS, "MODIFIED", made)
        return self._snapshot.defrags.get(metadata.uid)
