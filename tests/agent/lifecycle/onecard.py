"""One card before an API server in memory: the parts of an agent, its worker, and objects that a test writes."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from apportion.agent.devices.backend import Backend
from apportion.agent.devices.hardware import Hardware
from apportion.agent.devices.values import LivePartition, PartitionPlace, Placement
from apportion.agent.journal import Journal
from apportion.agent.lifecycle.begun import BegunCuts
from apportion.agent.lifecycle.context import AgentContext, Timeouts
from apportion.agent.lifecycle.desiredpartitions import DesiredPartitions
from apportion.agent.lifecycle.worker import CardWorker
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.client import Client, Object
from apportion.cluster.kinds import PARTITIONS
from tests.agent.places import GPU
from tests.cluster.apiserver import ApiServer

DEVICE, PLACE = "gpu-0-mig-3g40gb-9-4", PartitionPlace("gpu-0", "3g.40gb", Placement(4, 4))
LAYOUT = {"kind": "PartitionLayout", "name": "halves", "uid": "l1"}


class OneCard:
    """`context` has the parts, `api` is the client of `server`; `work` makes a round of the worker of gpu-0."""

    def __init__(self, context: AgentContext, server: ApiServer) -> None:
        self.context = context
        self.server = server

    @property
    def api(self) -> Client:
        """Return the agent's client."""
        return self.context.client

    @property
    def items(self) -> dict[str, Object]:
        """Return the Partitions by name."""
        return {item["metadata"]["name"]: item for item in self.server.all(PARTITIONS)}

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
        name = item["metadata"]["name"]
        self.server.delete(PARTITIONS, name)
        self.context.desired.observe(PARTITIONS, "MODIFIED", self.server.get(PARTITIONS, name))

    def show(self, item: Object) -> Object:
        """Write an object as it is now, which the watch shows at once."""
        stored = self.server.put(PARTITIONS, item)
        self.context.desired.observe(PARTITIONS, "MODIFIED", stored)
        return stored

    def status(self, item: Object) -> Object:
        """Return the status of a Partition as it was last written."""
        return dict(self.items[item["metadata"]["name"]].get("status") or {})

    def prepared(
        self, uid: str, device: str, step: ClaimStep = ClaimStep.PREPARED, *, card: str = "gpu-0"
    ) -> ClaimRow:
        """Have a claim prepared with a device of a card, or as far as `step`."""
        known = self.context.hardware.cards[card]
        devices = (ClaimDevice(device, card, "n", ("r0",), f"{GPU}/claim={uid}", card_uuid=known.uuid),)
        row = ClaimRow(uid, GPU, "default", uid, step, devices)
        self.context.journal.reserve(row)
        return row

    async def work(self) -> None:
        """Make a round, without the pauses that a worker makes after a refusal; the watch shows what went with its last finalizer."""
        before = self.items
        await CardWorker(self.context, "gpu-0").round()
        for name in before.keys() - self.items.keys():
            self.context.desired.observe(PARTITIONS, "DELETED", before[name])

    async def live(self) -> tuple[LivePartition, ...]:
        """Return what is on the card."""
        return await self.context.hardware.partitions()


@asynccontextmanager
async def one_card(
    folder: Path,
    backend: Backend,
    journal: str = "journal",
    *,
    seen: Mapping[str, Object] = MappingProxyType({}),
    boot: str = "boot",
    adopt: bool = False,
    patience: float = 5.0,
) -> AsyncIterator[OneCard]:
    """Give an agent's parts on the cards of a backend, with Partitions that are there; another name for the `journal` stands for one that was lost.

    `patience`: seconds after which a card's answer is overdue.
    """
    hardware = Hardware([backend], patience=patience)
    await hardware.discover()
    memory = Journal(folder / f"{journal}.db", boot)
    server = ApiServer()
    try:
        async with server.serving(), server.client() as client:
            context = AgentContext(
                client,
                hardware,
                memory,
                DesiredPartitions(),
                locks_dir=folder / "locks",
                begun=BegunCuts(folder / "cuts"),
                # However slow the machine is, a cut has one status.
                timeouts=Timeouts(shown=60.0),
                adopt_foreign=adopt,
            )
            node = OneCard(context, server)
            for item in seen.values():
                node.show(item)
            yield node
    finally:
        memory.close()
