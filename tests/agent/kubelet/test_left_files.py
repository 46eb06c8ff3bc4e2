"""Files of claims that are gone are removed, now or later: what keeps them from it now ends no agent."""

import sqlite3
from contextlib import closing
from pathlib import Path

from structlog.testing import capture_logs

from apportion.agent.cdi import CdiFolder
from apportion.agent.journal import Journal
from testbed.beside import beside
from testbed.eventually import eventually
from tests.agent.kubelet.filesbelow import REF, preparer
from tests.agent.lifecycle.monitored import monitored
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
        monitor, _ = monitored(node, files_interval=0.01)

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
