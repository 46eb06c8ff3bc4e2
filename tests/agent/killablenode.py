"""A node whose agents are killed: its fake driver, and short queries for tests."""

import sqlite3
from typing import Any

from testbed.api import Json
from testbed.chaos.fakehardware import LivePartition, Placement, placements
from testbed.chaos.node import ChaosNode
from testbed.chaos.nvmlhardware import NvmlHardware
from testbed.eventually import eventually
from testbed.fakes.nvml.library import FakeNvml

H100, A100 = placements("gpu-0", "H100-80GB"), placements("gpu-1", "A100-40GB")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def place(profile: str, start: int, card: str = "gpu-0") -> Placement:
    """Name a place of one of the two cards."""
    return next(p for p in (*H100, *A100) if (p.card, p.profile, p.start) == (card, profile, start))


class KillableNode:
    """The node is `node`, the fake driver `fake`."""

    def __init__(self, node: ChaosNode, hardware: NvmlHardware) -> None:
        self.node = node
        self.fake: FakeNvml = hardware.fake
        self.journal = node.folder / "state" / "journal.db"

    def cuts(self) -> list[LivePartition]:
        """Return what is on the hardware."""
        return list(self.node.hardware.partitions())

    async def becomes(self, count: int) -> list[LivePartition]:
        """Wait until so many partitions are on the hardware, all of them whole."""

        async def ask() -> list[LivePartition]:
            return self.cuts()

        return await eventually(ask, lambda cuts: len(cuts) == count and all(cut.uuid for cut in cuts))

    def ask_journal(self, query: str, mode: str = "rw") -> list[tuple[Any, ...]]:
        """Ask the journal in plain SQL, or change it while no agent runs; it is never made by this."""
        db = sqlite3.connect(f"file:{self.journal}?mode={mode}", uri=True)
        try:
            with db:
                return db.execute(query).fetchall()
        finally:
            db.close()

    async def journal_says(self, query: str, *rows: tuple[Any, ...]) -> None:
        """Wait until the journal answers with these rows."""

        async def ask() -> list[tuple[Any, ...]] | None:
            try:
                return self.ask_journal(query, "ro")
            except sqlite3.DatabaseError:
                return None  # lost or broken, and not made again yet

        await eventually(ask, lambda found: found == list(rows))

    async def phase(self, where: Placement, phase: str) -> Json:
        """Wait until a Partition is in a phase, and return it."""

        async def ask() -> Json:
            found = await self.node.partitions()
            return next((item for item in found if item["spec"]["device"] == where.device), {})

        return await eventually(ask, lambda item: item.get("status", {}).get("phase") == phase)

    async def running(self, name: str, where: Placement) -> Json:
        """Make a claim, its Partition, and let a container run on it."""
        claim = await self.node.create_claim(name, where.device)
        await self.node.create_partition(where, claim)
        await self.node.prepare(claim, where.device, where.card)
        return claim

    async def taints(self, device: str) -> set[str]:
        """Return the taint keys of a published device."""
        items, _ = await self.node.api.items(SLICES, fieldSelector=f"spec.nodeName={self.node.name}")
        devices = [row for item in items for row in item["spec"].get("devices") or ()]
        return {t["key"].split("/")[1] for row in devices if row["name"] == device for t in row["taints"]}

    async def tainted(self, device: str, *keys: str) -> None:
        """Wait until a device has just these taints beside the guard."""
        await eventually(lambda: self.taints(device), lambda found: found == {"guard", *keys})

    async def counter(self, card: str, name: str) -> str:
        """Return one counter of a card as published."""
        items, _ = await self.node.api.items(SLICES, fieldSelector=f"spec.nodeName={self.node.name}")
        sets = [row for item in items for row in item["spec"].get("sharedCounters") or ()]
        found: str = next(row["counters"][name]["value"] for row in sets if row["name"].startswith(card))
        return found
