"""Hand a partition over to the Partition that was made anew under the name of its former one.

In: a Partition without a row. Out: its row, where it has a former one. Somebody has taken the finalizers off that one, and the operator made
another, because a claim has the device: containers use the partition, which nobody may make or remove for the new object.
"""

import asyncio
from dataclasses import replace

import structlog

from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.lifecycle.desiredpartitions import layout_of
from apportion.agent.rows import ClaimStep, PartitionRow
from apportion.api.partition import Partition

_log = structlog.get_logger()


async def handed_over(context: AgentContext, partition: Partition) -> PartitionRow | None:
    """Return the row of a Partition that has taken over from a former one, None where there is none. The caller holds the card's lock.

    Raises NotReady when it cannot be written.
    """
    for row in context.journal.partitions_of(partition.spec.parent):
        if _is_former(context, row, partition):
            new = replace(row, uid=partition.metadata.uid)
            await asyncio.to_thread(context.journal.hand_over, row.uid, new)
            context.begun.forget(row.uid)
            _log.warning("partition.handed_over", partition=row.name, uuid=row.uuid, former=row.uid)
            return new
    return None


def _is_former(context: AgentContext, row: PartitionRow, partition: Partition) -> bool:
    """Say whether a row is of an object that is gone, of the same name, and what its successor's holder has prepared.

    A claim that is just being prepared or unprepared writes the former UID once more: its partition is handed over afterwards.
    """
    if (row.name, row.device) != (partition.metadata.name, partition.spec.device):
        return False
    users, holder = context.users(row.uid), partition.spec.holder
    if holder is None or any(user.step is not ClaimStep.PREPARED for user in users):
        return False
    if row.layout or layout_of(partition):
        return bool(users) and row.layout == layout_of(partition)
    return any(user.uid == holder.uid for user in users)
