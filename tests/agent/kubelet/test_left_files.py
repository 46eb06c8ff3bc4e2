"""Files of claims that are gone are removed, now or later: what keeps them from it now ends no agent."""

import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from structlog.testing import capture_logs

from apportion.agent.cdi import CdiFolder
from apportion.agent.hardwaremonitor import HardwareMonitor
from apportion.agent.inventorybuilder import InventoryBuilder
from apportion.agent.journal import Journal
from apportion.agent.kubelet.claimstatus import ClaimStatusWriter
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.nodeevents import NodeEvents
from apportion.cluster.recorder import Recorder
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.onecard import one_card
from tests.agent.places import GPU, H100, MakeBackend


async def test_a_locked_journal_keeps_them_until_it_can_be_asked(
    tmp_path: Path, make_backend: MakeBackend
) -> None:
    """The agent ended, and so did each one after it for as long as another process had the lock."""
    async with one_card(tmp_path, make_backend(cards=[H100])) as node:
        node.context.journal.close()
        node.context.journal = Journal(tmp_path / "journal.db", "boot", patience=0.01)
        served = preparer(tmp_path, node, "gpu-0")
        await served.prepare(REF)
        node.context.journal.drop_claim(REF.uid, GPU)
        recorder = Recorder(
            node.api, component="apportion-agent", clock=lambda: 0.0, now=lambda: datetime.now(UTC)
        )
        monitor = HardwareMonitor(
            node.context,
            InventoryBuilder(node.context, HeldClaims(node.context)),
            NodeEvents(node.api, recorder, "n"),
            ClaimStatusWriter(node.api, node.context.now),
            changed=lambda: None,
            rediscover=lambda: asyncio.sleep(0),
            misconfigured=tuple,
            interval=1.0,
            files_interval=0.01,
        )

        async def left() -> set[str]:
            return CdiFolder(tmp_path / "cdi").claims(GPU)

        async def tried() -> list[str]:
            return [row["event"] for row in logs]

        with (
            capture_logs() as logs,
            closing(sqlite3.connect(tmp_path / "journal.db", isolation_level=None)) as other,
        ):
            other.execute("BEGIN IMMEDIATE")
            async with beside(monitor.keep_files([served])):
                await eventually(tried, lambda names: "cdi.orphans_left" in names)
                other.execute("ROLLBACK")
                await eventually(left, lambda uids: not uids)
