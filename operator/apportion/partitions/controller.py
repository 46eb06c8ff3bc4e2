"""Controller: carry out what claims, layouts and warm counts want of partitions.

In: the snapshot. Out: Partition objects, DeviceClasses of layouts, statuses. Runs beside the cycle, only in the leader;
every write is fenced by the lease, a refused one is tried again in the next pass.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import structlog

from apportion.api.contract import AGENT_FINALIZER, LAYOUT_LABEL
from apportion.api.partition import Partition, Phase
from apportion.cel import Programs
from apportion.cluster.client import Client
from apportion.cluster.cut import cut
from apportion.cluster.kinds import CLASSES, LAYOUTS, PARTITIONS, POLICIES, Kind
from apportion.cluster.recorder import About, Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import DeviceResult
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass
from apportion.errors import ApiError, Missing, NotLeading, Overtaken
from apportion.partitions.card import device_id
from apportion.partitions.layoutclasses import class_names
from apportion.partitions.layouts import Plan, orphans, plans
from apportion.partitions.status import layout_status, policy_status, same
from apportion.partitions.wanted import Action, Create, Delete, SetHolder, Wanted

_log = structlog.get_logger()
_GONE_AFTER = 60.0
"""Seconds without a Node object after which its Partitions are let go."""


class Controller:
    """The control side of all partitions."""

    def __init__(
        self,
        client: Client,
        snapshot: Snapshot,
        recorder: Recorder,
        programs: Programs,
        *,
        fence: Callable[[], None],
        clock: Callable[[], float],
        now: Callable[[], datetime],
        idle: float = 1.0,
    ) -> None:
        """`idle`: seconds after which it looks again although nothing changed."""
        self._idle = idle
        self._client = client
        self._snapshot = snapshot
        self._recorder = recorder
        self._programs = programs
        self._fence = fence
        self._clock = clock
        self._now = now
        self._wanted = Wanted(clock)
        self._reserved: set[str] = set()
        self._gone_since: dict[str, float] = {}
        self._planned = (-1, -1)
        """Epochs that the plans are of."""
        self._wake = asyncio.Event()
        self._plans: list[Plan] = []

    def phase(self, claim: Claim) -> Phase | None:
        """Return the worst phase of the partitions that the claim's devices need; None when it needs none."""
        worst: Phase | None = None
        by_device = {device_id(p): p for p in self._snapshot.partitions.values()}
        for result in claim.allocation.results if claim.allocation else ():
            partition = by_device.get(result.device)
            if partition is None:
                if _needs_cut(self._snapshot, result):
                    return Phase.PENDING
                continue
            holder = partition.spec.holder
            if holder is None or (holder.uid != claim.uid and not holder.kind.endswith("Layout")):
                return Phase.PENDING
            current = partition.status.phase or Phase.PENDING
            # Idle is what a reused partition says until the agent has seen its new holder; it is cut all the same.
            current = Phase.READY if current == Phase.IDLE else current
            if worst is None or current != Phase.READY:
                worst = current
        return worst

    def reserve(self) -> None:
        """Plan the layouts, and keep claims off what they want; nothing is written. Cheap while nothing changed."""
        epoch = (self._snapshot.device_epoch, self._snapshot.partition_epoch)
        if self._planned == epoch:
            return
        self._planned = epoch
        self._wake.set()
        self._plans = plans(self._snapshot, self._programs)
        wanted = {f"layout:{device}": device for plan in self._plans for device in plan.reserved}
        for key, device in wanted.items():
            self._snapshot.state.hold(key, (DeviceResult(request="layout", device=device),))
        for key in self._reserved - wanted.keys():
            self._snapshot.state.release(key)
        self._reserved = set(wanted)

    async def run(self) -> None:
        """Act whenever the plans changed, and from time to time for what ends by the clock, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._idle):
                    await self._wake.wait()
            except TimeoutError:
                _log.debug("partition.look")
            self._wake.clear()
            await self.act()

    async def act(self) -> None:
        """Bring the API objects one step nearer to what is wanted."""
        actions: list[Action] = self._wanted.actions(self._snapshot)
        actions += [action for plan in self._plans for action in plan.actions]
        actions += orphans(self._snapshot, self._plans)
        await asyncio.gather(
            *(self._try(self._carry_out(action)) for action in actions),
            *(self._try(self._class(raw, plan)) for plan in self._plans for raw in plan.classes),
            *(self._try(self._drop_class(found)) for plan in self._plans for found in self._stale(plan)),
            *(self._try(self._layout(plan)) for plan in self._plans),
            *(self._try(self._policy(uid)) for uid in list(self._snapshot.policies)),
            *(self._try(self._let_go(p)) for p in self._gone()),
        )

    async def _try(self, work: Awaitable[None]) -> None:
        try:
            await work
        except NotLeading:
            return
        except (Overtaken, Missing) as error:
            # Somebody was quicker: the watch tells what the object is now, or that it is no more.
            _log.debug("partition.overtaken", error=str(error))
        except ApiError as error:
            _log.warning("partition.write_failed", error=str(error))

    async def _carry_out(self, action: Action) -> None:
        self._fence()
        partition = action.partition
        metadata = partition.metadata
        log = _log.bind(partition=metadata.name, profile=partition.spec.profile)
        match action:
            case Create():
                body = _body(partition)
                made = await self._client.create(PARTITIONS, body)
                self._note(made)
                log.info("partition.wanted", origin=str(partition.spec.origin))
            case SetHolder(holder=holder):
                raw = holder.to_json() if holder is not None else None
                change = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"holder": raw}}
                made = await self._client.patch(PARTITIONS, metadata.name, change)
                self._note(made)
                log.info(
                    "partition.held" if holder else "partition.idle", holder=holder.name if holder else None
                )
            case Delete(reason=reason):
                await self._client.delete(
                    PARTITIONS, metadata.name, uid=metadata.uid, version=metadata.resource_version
                )
                log.info("partition.released", reason=reason)

    def _note(self, raw: dict[str, Any]) -> None:
        # What we wrote is what we would read next: taking it now spares a pass that would repeat the write.
        self._snapshot.observe(PARTITIONS, "MODIFIED", raw)

    async def _class(self, raw: dict[str, Any], plan: Plan) -> None:
        name = raw["metadata"]["name"]
        found = next((c for c in self._snapshot.classes.values() if c.name == name), None)
        layout = plan.layout.metadata
        if found is None:
            self._fence()
            made = await self._client.create(CLASSES, raw)
            self._snapshot.observe(CLASSES, "ADDED", made)
            _log.info("class.made", name=name, layout=layout.name)
        elif found.labels.get(LAYOUT_LABEL) != layout.name:
            self._recorder.warning(
                About(LAYOUTS, layout.name, layout.uid),
                "ClassNotOurs",
                f"spec.deviceClasses: DeviceClass {name} exists and was not made by this layout; it is left alone",
            )
        elif [s["cel"]["expression"] for s in raw["spec"]["selectors"]] != list(found.selectors):
            self._fence()
            body = {
                "metadata": {"resourceVersion": found.version, "labels": raw["metadata"]["labels"]},
                "spec": raw["spec"],
            }
            await self._client.patch(CLASSES, name, body)

    def _stale(self, plan: Plan) -> list[DeviceClass]:
        """Return classes that the layout made and, as its spec is now, would not make again."""
        wanted = class_names(plan.layout)
        name = plan.layout.metadata.name
        made = [c for c in self._snapshot.classes.values() if c.labels.get(LAYOUT_LABEL) == name]
        return [found for found in made if found.name.startswith(f"{name}-") and found.name not in wanted]

    async def _drop_class(self, found: DeviceClass) -> None:
        self._fence()
        await self._client.delete(CLASSES, found.name, uid=found.uid, version=found.version)
        _log.info("class.dropped", name=found.name)

    async def _layout(self, plan: Plan) -> None:
        metadata = plan.layout.metadata
        status = layout_status(plan, self._now())
        if plan.broken is not None:
            self._recorder.warning(
                About(LAYOUTS, metadata.name, metadata.uid),
                "BrokenLayout",
                f"PartitionLayout {metadata.name}: {plan.broken}",
            )
        await self._status(
            LAYOUTS,
            plan.layout.metadata.name,
            metadata.resource_version,
            plan.layout.status.to_json(),
            status,
        )

    async def _policy(self, uid: str) -> None:
        policy = self._snapshot.policies[uid]
        status = policy_status(policy, self._snapshot, self._now())
        metadata = policy.metadata
        for name, older in self._snapshot.management.overlaps.get(metadata.name, ()):
            self._recorder.warning(
                About(POLICIES, metadata.name, uid),
                "Overlap",
                f"spec.deviceClasses: DeviceClass {name} already obeys AllocationPolicy {older}, which is older",
            )
        await self._status(
            POLICIES, metadata.name, metadata.resource_version, policy.status.to_json(), status
        )

    async def _status(
        self, kind: Kind, name: str, version: str, old: dict[str, Any], new: dict[str, Any]
    ) -> None:
        if same(old, new):
            return
        self._fence()
        body = {"metadata": {"resourceVersion": version}, "status": new}
        made = await self._client.patch(kind, name, body, sub="status")
        self._snapshot.observe(kind, "MODIFIED", made)

    def _gone(self) -> list[Partition]:
        """Return Partitions whose Node has been away for so long that no agent will ever answer."""
        away = {p.spec.node_name for p in self._snapshot.partitions.values()} - {
            n.name for n in self._snapshot.nodes
        }
        now = self._clock()
        self._gone_since = {name: self._gone_since.get(name, now) for name in away}
        return [
            p
            for p in self._snapshot.partitions.values()
            if now - self._gone_since.get(p.spec.node_name, now) >= _GONE_AFTER
        ]

    async def _let_go(self, partition: Partition) -> None:
        self._fence()
        metadata = partition.metadata
        if metadata.deletion_timestamp is None:
            await self._client.delete(PARTITIONS, metadata.name, uid=metadata.uid)
        kept = [finalizer for finalizer in metadata.finalizers if finalizer != AGENT_FINALIZER]
        body = {"metadata": {"uid": metadata.uid, "finalizers": kept}}
        try:
            await self._client.patch(PARTITIONS, metadata.name, body)
        except Missing:
            return
        _log.info("partition.let_go", partition=metadata.name, node=partition.spec.node_name)


def _needs_cut(snapshot: Snapshot, result: DeviceResult) -> bool:
    published = snapshot.devices.published(result.device)
    return published is not None and cut(published[0]) is not None


def _body(partition: Partition) -> dict[str, Any]:
    body = partition.to_json()
    body["metadata"] = {
        "name": partition.metadata.name,
        "finalizers": list(partition.metadata.finalizers),
    }
    body.pop("status", None)
    return body
