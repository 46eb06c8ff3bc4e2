"""A claim's first row in the journal: written where its devices can be had beside those of other claims.

In: the row, the journal, how the node shares its GPUs. Out: nothing, or NotReady naming the holders. A card that is shared may serve more
claims than its node allows by now: who lowers that takes nothing from those that have a share. What has lost its share still uses it until
it is unprepared, and the claim that got that share waits.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence

from apportion.agent.devices.values import Card
from apportion.agent.kubelet.claims import ClaimRef, read, still_allocated
from apportion.agent.kubelet.fit import Oversubscription, check_fit, oversubscribed
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimRow
from apportion.errors import ApportionError, BrokenInput, NotReady


class _OversubscribedError(ApportionError):
    """More claims would share a card than its node allows; nothing was written."""

    def __init__(self, found: Oversubscription) -> None:
        super().__init__(f"{found.card} is shared by too many claims")
        self.found = found


async def reserve(context: AgentContext, row: ClaimRow) -> None:
    """Write the row. Raises NotReady where a device is another claim's, or more of it would be in use than there is, and ApiError."""
    cards, sharing = context.hardware.cards, await context.sharing()
    most = sharing.most if sharing is not None else None
    asked: frozenset[str] = frozenset()
    while True:
        try:
            return await asyncio.to_thread(_write, context, row, cards, most, asked)
        except _OversubscribedError as error:
            await _check_holders(context, error.found)
            # The claim may have shares of a further card, and others may have come meanwhile.
            asked |= {holder.uid for holder in error.found.holders}


def _write(
    context: AgentContext, row: ClaimRow, cards: Mapping[str, Card], most: int | None, asked: Collection[str]
) -> None:
    def check(others: Sequence[ClaimRow]) -> None:
        check_fit(row, others, cards)
        if most is not None and (found := oversubscribed(row, others, most, asked)) is not None:
            raise _OversubscribedError(found)

    context.journal.reserve(row, check)


async def _check_holders(context: AgentContext, found: Oversubscription) -> None:
    """Raise NotReady where one of the claims that have a card's shares has lost it in the API; one that cannot be read has not."""
    for holder in found.holders:
        try:
            claim = await read(context.client, ClaimRef(holder.namespace, holder.name, holder.uid))
        except BrokenInput:
            continue
        if not still_allocated(claim, holder):
            raise NotReady(
                f"device {found.card} serves {found.most} claims, and {len(found.holders)} have it until ResourceClaim"
                f" {holder.key} is unprepared, which has lost its share"
            )
