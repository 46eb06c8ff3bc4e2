"""One card without a control plane: the parts of an agent, its worker, and Partition objects that a test writes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from kubernetes_asyncio.client import Configuration

from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.simulated.backend import SimulatedBackend
from apportion.agent.devices.values import LivePartition, PartitionPlace, Placement
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import PARTITIONS, ResourceKind
from tests.agent.places import GPU

DEVICE, PLACE = "gpu-0-mig-3g40gb-9-4", PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4))
LAYOUT = {"kind": "PartitionLayout", "name": "halves", "uid": "l1"}


class Partitions(Client):
    """The API server, as far as a worker asks it."""

    def __init__(self) -> None:
        super().__init__(Configuration(), patience=1.0, manager="test")
        self.items: dict[str, Object] = {}
        """By name."""
        self._version = 0

    def put(self, item: Object) -> Object:
        """Write a new version of an object."""
        self._version += 1
        item["metadata"]["resourceVersion"] = str(self._version)
        self.items[item["metadata"]["name"]] = item
        return item

    async def list(self, kind: ResourceKind, *, namespace: str = "", **params: str) -> Object:
        """Return the object whose name is asked for."""
        assert (kind, namespace) == (PARTITIONS, "")
        found = self.items.get(params["fieldSelector"].removeprefix("metadata.name="))
        return {"items": [found] if found is not None else []}

    async def patch(self, kind: ResourceKind, name: str, body: object, **_: str) -> Object:
        """Merge a patch of status or finalizers; an object that is being deleted goes with its last finalizer."""
        assert kind is PARTITIONS
        assert isinstance(body, dict)
        item = self.put(_merged(self.items[name], body))
        if item["metadata"].get("deletionTimestamp") and not item["metadata"]["finalizers"]:
            del self.items[name]
        return item


def _merged(known: Object, patch: Mapping[str, Any]) -> Object:
    found = dict(known)
    for key, value in patch.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return found


class OneCard:
    """`context` has the parts, `api` the objects; `work` makes a round of the worker of gpu-0."""

    def __init__(self, context: AgentContext, api: Partitions) -> None:
        self.context = context
        self.api = api

    def partition(self, uid: str, device: str = DEVICE, **spec: Any) -> Object:
        """Write a Partition that the watch shows at once."""
        item = {
            "metadata": {"name": f"n-{device}", "uid": uid, "generation": 1, "finalizers": [AGENT_FINALIZER]},
            "spec": {
                "nodeName": "n", "driver": GPU, "pool": "n", "device": device, "parent": "gpu-0",
                "profile": "3g.40gb", "origin": "Warm", **spec,
            },
        }  # fmt: skip
        return self.show(item)

    def delete(self, item: Object) -> None:
        """Delete a Partition, whose finalizer keeps it."""
        now = self.api.items[item["metadata"]["name"]]
        self.show({**now, "metadata": {**now["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})

    def show(self, item: Object) -> Object:
        """Write an object as it is now, which the watch shows at once."""
        self.context.desired.observe(PARTITIONS, "MODIFIED", self.api.put(item))
        return item

    def status(self, item: Object) -> Object:
        """Return the status of a Partition as it was last written."""
        return dict(self.api.items[item["metadata"]["name"]].get("status") or {})

    def prepared(self, uid: str, device: str, step: ClaimStep = ClaimStep.PREPARED) -> ClaimRow:
        """Have a claim prepared with a device, or as far as `step`."""
        card = self.context.hardware.cards["gpu-0"]
        devices = (ClaimDevice(device, card.name, "n", ("r0",), f"{GPU}/claim={uid}", card_uuid=card.uuid),)
        row = ClaimRow(uid, GPU, "default", uid, step, devices)
        self.context.journal.reserve(row)
        return row

    async def work(self) -> None:
        """Make a round, without the pauses that a worker makes after a refusal."""
        await CardWorker(self.context, "gpu-0").round()

    async def live(self) -> tuple[LivePartition, ...]:
        """Return what is on the card."""
        return await self.context.hardware.partitions()


@asynccontextmanager
async def one_card(
    folder: Path,
    backend: SimulatedBackend,
    journal: str = "journal",
    *,
    seen: Mapping[str, Object] = MappingProxyType({}),
    boot: str = "boot",
    adopt: bool = False,
) -> AsyncIterator[OneCard]:
    """Give an agent's parts on a simulated gpu-0, with Partitions that are there; another name for the `journal` stands for one that was lost."""
    hardware = Hardware([backend])
    await hardware.discover()
    memory = Journal(folder / f"{journal}.db", boot)
    try:
        async with Partitions() as api:
            context = AgentContext(
                api,
                hardware,
                memory,
                DesiredPartitions(),
                locks_dir=folder / "locks",
                begun=BegunCuts(folder / "cuts"),
                adopt_foreign=adopt,
            )
            for item in seen.values():
                context.desired.observe(
                    PARTITIONS, "ADDED", api.put({**item, "metadata": {**item["metadata"]}})
                )
            yield OneCard(context, api)
    finally:
        memory.close()
