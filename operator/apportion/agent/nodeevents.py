"""Events: on a Partition that cannot be cut, on the Node about health, foreign partitions and missing driver files.

In: watch events of Partitions, results of polls. Out: Events through the recorder, which writes none twice. The operator writes
Events on claims and kubelet on pods; the agent only about what it alone sees.
"""

from collections.abc import Iterable, Mapping

import structlog

from apportion.agent.devices.values import Health, LivePartition
from apportion.agent.kubelet.health import health_message
from apportion.agent.rows import PartitionRow
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import NODES, PARTITIONS, ResourceKind
from apportion.cluster.recorder import About, Recorder
from apportion.errors import ApiError

_log = structlog.get_logger()


class NodeEvents:
    """Remembers what was wrong, so that there is an Event when it is over."""

    def __init__(self, client: Client, recorder: Recorder, node: str) -> None:
        self._client = client
        self._recorder = recorder
        self._node = node
        self._about: About | None = None
        self._failed: set[str] = set()
        """UIDs of Partitions that were last seen failing."""
        self._sick: set[str] = set()
        """UIDs of Partitions that an error hit."""
        self._failing: Mapping[str, str] = {}
        """Devices whose control daemon did not run."""
        self._health: dict[str, Health] = {}
        self._foreign: frozenset[tuple[str, str]] = frozenset()
        self._warned: set[str] = set()
        self._noted: dict[str, str] = {}
        """What was last said by a Normal Event, by reason."""

    def observe(self, _kind: ResourceKind, change: str, item: Object) -> None:
        """Take a watch event of a Partition."""
        metadata = item["metadata"]
        uid = metadata["uid"]
        rows = (item.get("status") or {}).get("conditions") or ()
        failed = next((row for row in rows if row["type"] == "Failed" and row["status"] == "True"), None)
        about = About(PARTITIONS, metadata["name"], uid)
        if change == "DELETED":
            self._failed.discard(uid)
        elif failed is not None:
            self._failed.add(uid)
            self._recorder.warning(about, "PartitionFailed", f"{failed['reason']}: {failed['message']}")
        elif uid in self._failed:
            self._failed.discard(uid)
            self._recorder.normal(
                about, "PartitionRecovered", "the cut that had failed is not failing any more"
            )

    def sick_partitions(self, rows: Iterable[PartitionRow]) -> None:
        """Write an Event on each Partition that an error hit, once."""
        sick = {row.uid: row for row in rows}
        for uid in sick.keys() - self._sick:
            row = sick[uid]
            self._recorder.warning(
                About(PARTITIONS, row.name, uid),
                "PartitionSick",
                f"{row.device} ({row.uuid}) was hit by an error that its card contained: new work stays away until it is removed",
            )
        self._sick = set(sick)

    async def failing_devices(self, failing: Mapping[str, str]) -> None:
        """Write an Event on the Node about each device whose programs miss what was set up for them, and when it is over."""
        about = await self._node_object() if failing != self._failing else None
        if about is None:
            return
        for device, why in failing.items() - self._failing.items():
            self._recorder.warning(about, "ControlDaemonFailing", f"{device}: {why}")
        for device in self._failing.keys() - failing.keys():
            self._recorder.normal(about, "ControlDaemonRecovered", f"{device}: its control daemon runs")
        self._failing = failing

    async def warn(self, reason: str, warnings: Iterable[str]) -> None:
        """Write an Event on the Node, once for each text."""
        fresh = set(warnings) - self._warned - {""}
        about = await self._node_object() if fresh else None
        if about is not None:
            self._warned |= fresh
            for warning in sorted(fresh):
                self._recorder.warning(about, reason, warning)

    async def warn_anew(self, reason: str, warnings: Iterable[str]) -> None:
        """Write an Event on the Node about what has happened, also when the same has happened before."""
        texts = sorted({*warnings} - {""})
        about = await self._node_object() if texts else None
        if about is not None:
            for text in texts:
                self._recorder.warning(about, reason, text)

    async def note(self, reason: str, text: str) -> None:
        """Write a Normal Event on the Node when there is something to say that is not what was last said."""
        about = await self._node_object() if text and self._noted.get(reason) != text else None
        if about is not None:
            self._noted[reason] = text
            self._recorder.normal(about, reason, text)

    async def report(self, health: Mapping[str, Health], foreign: Iterable[LivePartition]) -> None:
        """Write Events on the Node about what a poll of the hardware found."""
        about = await self._node_object()
        if about is None:
            return
        for name, state in health.items():
            if state is self._health.get(name, Health.HEALTHY):
                continue
            self._health[name] = state
            if state is Health.HEALTHY:
                self._recorder.normal(about, "CardRecovered", f"{name} is healthy again")
            else:
                self._recorder.warning(about, f"Card{state}", health_message(name, state))
        rows = {(str(row.place), row.uuid) for row in foreign}
        for place, uuid in sorted(rows - self._foreign):
            self._recorder.warning(
                about,
                "ForeignPartition",
                f"{place} ({uuid or 'half made'}) was not made by apportion: it is left alone, and what it takes is not offered",
            )
        self._foreign = frozenset(rows)

    async def _node_object(self) -> About | None:
        if self._about is None:
            try:
                node = await self._client.get(NODES, self._node)
            except ApiError as error:
                _log.warning("events.no_node", error=str(error))
                return None
            self._about = About(NODES, self._node, node["metadata"]["uid"])
        return self._about
