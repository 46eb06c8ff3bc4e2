"""RankTables: HCCL's rank table of a pod group, over all servers, for its pods that ask for one.

In: pods that are about to lose our gate, with the annotation apportion.dev/rank-table. Out: for each the table of all chips of its group, or an Event that
says why there is none. Until the gates of a group go none of its pods can start, and all that have to start together have their devices then: the table is
whole before anybody can read it.

Ranks count pods in the order of their indexes, as launchers do; neighbours by index were placed close to each other (ADR 25). Pods without
indexes are counted in the order of the ladder: those of one domain follow each other, from the widest level to the closest, then those of one node. The
chips of a pod are in the order of a ring.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

from apportion.api.ranktable import Chip, rank_table, ring_of
from apportion.cluster.recorder import Recorder
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import Device
from apportion.dra.pod import RANK_TABLE, Pod
from apportion.errors import BrokenInput
from apportion.scheduling.demands.groups import PodGroupState, group_of
from apportion.scheduling.events import groupevents

LONGEST = 200_000
"""Bytes of a table: all annotations of a pod together may have 256 KiB (apimachinery, `TotalAnnotationSizeLimitB`)."""
MOST_WRITTEN = 16_000_000
"""Bytes of the tables of all pods of a group: each pod has one, and etcd and every watch carry them all."""
_HCCL = "HCCL"
_CHIP = re.compile(r"npu-(\d+)")


class RankTables:
    """Makes tables; an Event says why there is none."""

    def __init__(self, snapshot: Snapshot, recorder: Recorder) -> None:
        self._snapshot = snapshot
        self._recorder = recorder

    def of(self, pods: Iterable[Pod]) -> dict[str, str]:
        """Return the tables of those of some pods that ask for one, by UID; each group is looked at once."""
        found: dict[str, str] = {}
        known: dict[tuple[str, str, str], str | BrokenInput] = {}
        for pod in pods:
            if pod.rank_table:
                key = pod.namespace, pod.group.name if pod.group is not None else pod.name, pod.rank_table
                if key not in known:
                    known[key] = self._try(pod)
                table = known[key]
                if isinstance(table, str):
                    found[pod.uid] = table
                else:
                    groupevents.no_rank_table(self._recorder, pod, str(table))
        return found

    def lost(self, pod: Pod, allocation: Allocation) -> int:
        """Note that a pod without our gate lost these devices before it started: those that have a table hear that it is not true. Returns how many pods were looked at."""
        if not any(map(self._may_be_chip, allocation.results)):
            return 0
        group = group_of(pod, self._snapshot)
        pods = group.pods if group is not None else (pod,)
        if having := [each for each in pods if each.has_rank_table]:
            groupevents.rank_table_outdated(self._recorder, having, pod)
        return len(pods)

    def _may_be_chip(self, result: DeviceResult) -> bool:
        """Say whether a device may be in a table: a whole NPU, or one that is published no more."""
        device = self._snapshot.devices.device(result.device)
        try:
            return device is None or _chip(device, "") is not None
        except BrokenInput:
            return False  # a part of a chip

    def _try(self, pod: Pod) -> str | BrokenInput:
        try:
            return self._table(pod)
        except BrokenInput as error:
            return error

    def _table(self, pod: Pod) -> str:
        if pod.rank_table != _HCCL:
            raise BrokenInput(
                f"expected {_HCCL}, not {pod.rank_table[:40]!r}", field=f"metadata.annotations[{RANK_TABLE}]"
            )
        group = group_of(pod, self._snapshot)
        pods = self._in_order(group) if group is not None else (pod,)
        chips: dict[Chip, None] = {}
        for each in pods:
            # Pods may share a claim.
            chips |= dict.fromkeys(ring_of({*self._chips(each)} - chips.keys()))
        _check([*chips])
        text = rank_table([*chips])
        if len(text) > LONGEST or len(text) * len(pods) > MOST_WRITTEN:
            raise BrokenInput(
                f"a table of {len(chips)} chips for {len(pods)} pods is larger than their annotations may be"
            )
        return text

    def _in_order(self, group: PodGroupState) -> Sequence[Pod]:
        """Return the pods of a group in the order of their ranks. Raises BrokenInput where not all of them start together."""
        if group.most not in (None, group.least) or len(group.pods) != group.least:
            raise BrokenInput(
                f"group {group.key} starts with {group.least} pods, and has {len(group.pods)} now and"
                f" {group.most or 'as many as fit'} at most: a table has all ranks from the beginning"
            )
        indexes = {pod.group.index for pod in group.pods if pod.group is not None}
        if () not in indexes and len(indexes) == len(group.pods):
            return sorted(group.pods, key=lambda pod: pod.group.index if pod.group is not None else ())
        return sorted(group.pods, key=lambda pod: self._place(pod, group))

    def _place(self, pod: Pod, group: PodGroupState) -> tuple[tuple[str, ...], str, str]:
        """Return the domains of a pod's node, the widest first, its node and its name."""
        name = pod.node
        labels = [group.topology.label] if group.topology is not None else []
        for claim in self._snapshot.named_claims(pod):
            if claim is not None and claim.allocation is not None:
                name = name or claim.allocation.node
                rungs = [rung.node_label for rung in self._snapshot.managed.policy(claim).group_ladder]
                labels += [label for label in reversed(rungs) if label not in labels]
        node = self._snapshot.node(name or "")
        return (
            tuple(node.labels.get(label, "") if node is not None else "" for label in labels),
            name or "",
            pod.name,
        )

    def _chips(self, pod: Pod) -> Iterator[Chip]:
        """Yield the whole NPUs of a pod."""
        for claim in self._snapshot.named_claims(pod):
            allocation = claim.allocation if claim is not None else None
            if allocation is None:
                raise BrokenInput(f"pod {pod.name} has not all of its devices")
            for result in allocation.results:
                device = self._snapshot.devices.device(result.device)
                if device is None:
                    raise BrokenInput(f"{result.device} of pod {pod.name} is published no more")
                if (chip := _chip(device, allocation.node or "")) is not None:
                    yield chip


def _chip(device: Device, node: str) -> Chip | None:
    """Return a whole NPU; None for a device of another kind."""

    def text(name: str) -> str:
        found = device.attribute(f"{device.driver}/{name}")
        return found if isinstance(found, str) else ""

    def number(name: str) -> int | None:
        found = device.attribute(f"{device.driver}/{name}")
        return found if isinstance(found, int) else None

    named = _CHIP.fullmatch(device.name)
    if text("type") == "vnpu":
        raise BrokenInput(f"{device.name} of node {node} is a part of a chip, and parts have no ranks")
    if text("type") != "npu" or named is None:
        return None
    return Chip(
        node,
        device.name,
        int(named[1]),
        text("hccsGroup"),
        text("deviceIP"),
        number("superPodId"),
        number("superDeviceId"),
    )


def _check(chips: Sequence[Chip]) -> None:
    """Raise BrokenInput where HCCL could not read a table of these chips."""
    if len(chips) < 2:
        raise BrokenInput(f"the pods have {len(chips)} whole NPU together, and ranks are for two or more")
    if len({chip.super_pod is None for chip in chips}) > 1:
        raise BrokenInput("some chips are in a super pod and some are in none: no template has both")
    nodes = {chip.node for chip in chips}
    for chip in chips:
        if chip.super_pod is not None and chip.super_device is None:
            raise BrokenInput(f"{chip.name} of node {chip.node} has no attribute superDeviceId")
        if len(nodes) > 1 and not chip.address:
            raise BrokenInput(
                f"{chip.name} of node {chip.node} has no attribute deviceIP: its node's /etc/hccn.conf has no"
                f" address_{chip.id}, and with several servers HCCL needs it"
            )
