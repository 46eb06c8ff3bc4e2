"""Release one partition: from the hardware, then from the journal, then let go of its object.

In: a journal row, what is live on the card. Out: an outcome, None when it is gone. A partition that a claim has prepared
is never touched, whoever deleted its object.
"""

import asyncio
from dataclasses import replace

import structlog

from apportion.agent.lifecycle.cut import Live, hollow
from apportion.agent.lifecycle.desk import Desk
from apportion.agent.lifecycle.outcome import Outcome, Phase
from apportion.agent.lifecycle.wish import Wish
from apportion.agent.rows import PartitionRow, Step
from apportion.api.contract import AGENT_FINALIZER
from apportion.cluster.kinds import PARTITIONS
from apportion.errors import HardwareError, Missing

_log = structlog.get_logger()


async def release(desk: Desk, row: PartitionRow, live: Live) -> Outcome | None:
    """Remove a partition of ours. The caller holds the card's lock."""
    users = desk.users(row.uid)
    if users:
        names = ", ".join(user.key for user in users)
        return Outcome(Phase.RELEASING, "InUse", f"still prepared for ResourceClaim {names}", again=True)
    begun = row.step is Step.RELEASING
    if not begun:
        row = replace(row, step=Step.RELEASING)
        await asyncio.to_thread(desk.journal.put_partition, row)
        desk.at("partition.releasing")
    found = live.get(row.spot)
    # Without a UUID in the journal (a crash before Created) the place alone says that it is ours. Without one on the
    # hardware it is what a removal that broke off left: a GPU instance that has lost its compute instance.
    rest = found is not None and ((begun and not found.complete) or hollow(row, found))
    if found is not None and (rest or row.uuid in ("", found.uuid)):
        try:
            await desk.hardware.destroy(found)
        except HardwareError as error:
            return Outcome(Phase.RELEASING, type(error).__name__, str(error), again=True)
        desk.at("hardware.destroyed")
    await asyncio.to_thread(desk.journal.drop_partition, row.uid)
    desk.at("partition.gone")
    _log.info("partition.gone", partition=row.name, place=str(row.spot))
    if row.layout:
        # Others are not in the slices: allocations count them.
        desk.published()
    return None


async def let_go(desk: Desk, wish: Wish) -> None:
    """Take our finalizer from the object; raises Overtaken when somebody wrote it first."""
    if AGENT_FINALIZER not in wish.finalizers:
        return
    rest = [name for name in wish.finalizers if name != AGENT_FINALIZER]
    body = {"metadata": {"resourceVersion": wish.version, "finalizers": rest}}
    try:
        answer = await desk.client.patch(PARTITIONS, wish.name, body)
    except Missing:
        return
    desk.wishes.observe(PARTITIONS, "MODIFIED", answer)
