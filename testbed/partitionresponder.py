"""Answers Partition objects as the agents of many nodes would, without agents and hardware.

In: an API client. Out: statuses. Each new Partition gets the one status write of an agent whose driver answers within a second
(Ready or Idle), each change of the holder one, and a Partition in deletion loses the agent's finalizer. The
texts of the statuses are made by the agent's own code. Left out: `preparedBy`, which an agent writes when kubelet calls it.
"""

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable

import structlog

from apportion.agent.devices.values import PartitionPlace, Placement
from apportion.agent.lifecycle.report import PartitionOutcome, status, status_patch
from apportion.agent.rows import PartitionRow, Step
from apportion.api.contract import AGENT_FINALIZER
from apportion.api.partition import Partition, Phase
from apportion.cluster.kinds import PARTITIONS
from testbed.api import Api, Json
from testbed.errors import ApiError
from testbed.reflector import Reflector

_WRITES = 32
"""How many Partitions are answered at once."""
_NAMESPACE = uuid.UUID("0f4a1f0e-6a51-4c0c-9a3f-2f6f0a7e5b11")
_log = structlog.get_logger()


class PartitionResponder:
    """Follows all Partitions until cancelled."""

    def __init__(self, api: Api, now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)) -> None:
        self._api = api
        self._now = now
        self._newest: dict[str, Json] = {}
        self._answering: set[str] = set()
        self._due: asyncio.Queue[str] = asyncio.Queue()
        self.answered = 0
        """Partitions that became Ready or Idle, repetitions included."""

    async def run(self) -> None:
        """Answer until cancelled; raises what is no refusal of the API server."""
        async with asyncio.TaskGroup() as group:
            group.create_task(Reflector(self._api, PARTITIONS.path(), self._observe).run())
            for _ in range(_WRITES):
                group.create_task(self._work())

    def _observe(self, uid: str, item: Json | None) -> None:
        if item is None:
            self._newest.pop(uid, None)
            return
        self._take(uid, item)
        if uid not in self._answering:
            self._answering.add(uid)
            self._due.put_nowait(uid)

    def _take(self, uid: str, item: Json) -> None:
        known = self._newest.get(uid)
        if known is None or _version(known) < _version(item):
            self._newest[uid] = item

    async def _work(self) -> None:
        while True:
            uid = await self._due.get()
            try:
                # The answer to a write may come before its event: the newest version of both counts.
                while (item := self._newest.get(uid)) is not None and (step := self._step(item)) is not None:
                    if not await self._write(uid, item, step):
                        break
            finally:
                self._answering.discard(uid)

    async def _write(self, uid: str, item: Json, step: tuple[str, Json]) -> bool:
        """Write one step; says whether the next one may be looked for now rather than at the next event."""
        path, body = step
        try:
            answer = await self._api.patch(path, body)
        except ApiError as error:
            if error.status not in (404, 409):
                _log.warning("partition.not_answered", path=path, error=str(error))
            return self._newest.get(uid) is not item
        if uid in self._newest:
            self._take(uid, answer)
        return True

    def _step(self, item: Json) -> tuple[str, Json] | None:
        """Return path and body of the next write, None where the object is as it should be."""
        metadata = item["metadata"]
        path = PARTITIONS.path(metadata["name"])
        if "deletionTimestamp" in metadata:
            kept = [each for each in metadata.get("finalizers", ()) if each != AGENT_FINALIZER]
            if kept == metadata.get("finalizers", []):
                return None
            return path, {"metadata": {"uid": metadata["uid"], "finalizers": kept}}
        partition = Partition.from_json(item)
        patch = self._status(partition)
        if not patch:
            return None
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": patch}
        return f"{path}/status", body

    def _status(self, partition: Partition) -> Json:
        now = self._now().strftime("%Y-%m-%dT%H:%M:%SZ")
        held = partition.spec.holder is not None
        outcome = PartitionOutcome(Phase.READY if held else Phase.IDLE, "Cut")
        patch = status_patch(partition, status(partition, _row(partition), outcome, users=(), now=now))
        self.answered += bool(patch)
        return patch


def _version(item: Json) -> int:
    return int(item["metadata"]["resourceVersion"])


def _row(partition: Partition) -> PartitionRow:
    """Return what an agent's journal has of a partition that is cut."""
    spec, metadata = partition.spec, partition.metadata
    placement = Placement(spec.placement.start, spec.placement.size) if spec.placement else Placement(0, 0)
    return PartitionRow(
        metadata.uid,
        metadata.name,
        spec.device,
        PartitionPlace(spec.parent, spec.profile, placement),
        Step.READY,
        instance={"gpuInstance": "1", "computeInstance": "0"},
        uuid=f"MIG-{uuid.uuid5(_NAMESPACE, metadata.uid)}",
    )
