"""What is read of the journal waits for no write: it is read in the event loop, where everything else would wait with it."""

import asyncio
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from apportion.agent.journal import Journal
from apportion.agent.rows import Share
from tests.agent.journal.journalrow import ROW, claim

DRIVER = "gpu.apportion.dev"


async def test_the_event_loop_reads_while_a_thread_writes(tmp_path: Path) -> None:
    """A write waits for the other agent of a rolling update, for `apportion node` and for a slow disk. This one ends after the loop has read."""
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:
        journal.put_partition(ROW)
        begun, read = threading.Event(), threading.Event()

        def write() -> None:
            begun.set()
            assert read.wait(10.0), "the loop did not read meanwhile"

        writing = asyncio.create_task(asyncio.to_thread(journal.if_unclaimed, "c", DRIVER, write))
        await asyncio.to_thread(begun.wait)
        assert [*journal.partitions()] == [ROW.uid]
        assert (journal.claims(), journal.claim("c", DRIVER), journal.fresh) == ((), None, True)
        read.set()
        await writing


async def test_a_claim_is_read_with_its_shares_of_the_same_moment(tmp_path: Path) -> None:
    """They are in another table: without them it would have the whole card."""
    whole = claim("c", "gpu-0")
    shared = replace(whole, devices=(replace(whole.devices[0], share=Share("s", 1, 1)),))
    with closing(Journal(tmp_path / "journal.db", "b")) as journal:

        def write() -> None:
            for _ in range(200):
                journal.put_claim(shared)
                journal.drop_claim(shared.uid, DRIVER)

        writing = asyncio.create_task(asyncio.to_thread(write))
        while not writing.done():
            assert journal.claim(shared.uid, DRIVER) in (None, shared)
            assert journal.claims() in ((), (shared,))
            await asyncio.sleep(0)
        await writing
