"""Held claims: a device is free only after unprepare, even when its claim is deallocated or deleted before.

In: the journal's claims and the API's. Out: the claims whose devices are still prepared although they lost them (a pod
deleted by force: its containers may run on). Their devices are tainted until kubelet unprepares. Of partitions the operator knows by
`status.preparedBy` who has them, so that claims that still hold theirs are looked at in turn: a node may have a hundred, and a cluster
thousands of nodes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

import structlog

from apportion.agent.kubelet.claims import ClaimRef, read, still_allocated, with_access
from apportion.agent.kubelet.rotation import Rotation
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, ClaimStep
from apportion.api.partition import Origin
from apportion.dra.claim import Claim
from apportion.errors import ApportionError, Unreachable

_FIRST: Final = 1.0
"""Seconds between two rounds, as long as the API server has not answered all of one."""
_MOST: Final = 30
"""Rounds after which the node is published all the same: the server may never answer about one of the claims."""
_log = structlog.get_logger()


class HeldClaims:
    """Compares the prepared claims of this node with the API."""

    def __init__(
        self,
        context: AgentContext,
        *,
        interval: float = 10.0,
        abandon: Callable[[ClaimRow], Coroutine[Any, Any, bool]] | None = None,
        patience: float = 2.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`interval`: seconds between two rounds; `patience`: for one abandoned claim, whose driver may hang, in a round.

        `abandon(row)` undoes a preparation of which kubelet never got an answer: no container has the devices, and kubelet
        may not call again. It returns whether there was one.
        """
        self.abandon = abandon
        self._context = context
        self._interval = interval
        self._sleep = sleep
        self._patience = patience
        self._abandoning: dict[tuple[str, str], asyncio.Task[bool]] = {}
        """What is being undone, by claim UID and driver: it goes on between the rounds."""
        self._lost: set[tuple[str, str]] = set()
        self.looked = asyncio.Event()
        """Set once this process knows what the one before had found: nothing is published before."""
        self._rounds = 0
        self._rotation = Rotation()

    def rows(self) -> tuple[ClaimRow, ...]:
        """Return the claims that hold devices which they have lost."""
        return tuple(row for row in self._context.journal.claims() if (row.uid, row.driver) in self._lost)

    def released(self, row: ClaimRow) -> None:
        """Take note that a claim was unprepared: its devices are free now."""
        # With the last share of a card its strategy may change.
        shared = any(device.share is not None for device in row.devices)
        if shared or (row.uid, row.driver) in self._lost:
            self._lost.discard((row.uid, row.driver))
            self._context.slices_changed()

    async def run(self) -> None:
        """Check until cancelled."""
        try:
            while True:
                await self.check()
                await self._sleep(self._interval if self.looked.is_set() else min(self._interval, _FIRST))
        finally:
            for undoing in self._abandoning.values():
                undoing.cancel()

    async def check(self) -> None:
        """Compare the claims whose turn it is with the API; one that cannot be read stays as it was."""
        lost = set()
        silent = False
        for row in self._due(self._context.journal.claims()):
            key = (row.uid, row.driver)
            try:
                ref = ClaimRef(row.namespace, row.name, row.uid)
                # The API server's cache may be old: by what it says nobody loses devices, and those that were lost do not become free.
                latest = key in self._lost or not self.looked.is_set()
                claim = await read(self._context.client, ref, latest=latest)
                if not latest and not still_allocated(claim, row):
                    claim = await read(self._context.client, ref)
                await self._correct(claim, row)
            except ApportionError as error:
                silent |= isinstance(error, Unreachable)
                lost |= self._lost & {key}
                continue
            if not still_allocated(claim, row) and await self._abandoned(row):
                continue
            if not still_allocated(claim, row):
                lost.add(key)
                if key not in self._lost:
                    _log.warning(
                        "claim.held",
                        claim=row.key,
                        uid=row.uid,
                        devices=[device.device for device in row.devices],
                    )
        # A claim may have been unprepared while the others were being read.
        lost &= {(row.uid, row.driver) for row in self._context.journal.claims()}
        if lost != self._lost:
            self._lost = lost
            self._context.slices_changed()
        self._rounds += 1
        if not silent or self._rounds >= _MOST:
            self.looked.set()

    async def _correct(self, claim: Claim | None, row: ClaimRow) -> None:
        """Write down with which access a prepared claim has its devices: the API may have been silent when the row was recovered. Raises NotReady."""
        right = with_access(claim, row)
        if row.step is ClaimStep.PREPARED and right != row:
            await asyncio.to_thread(self._context.journal.correct_claim, row, right)
            _log.warning("claim.access_corrected", claim=row.key, uid=row.uid)
            self._context.slices_changed()

    async def _abandoned(self, row: ClaimRow) -> bool:
        """Say whether a preparation was undone that was never finished; one that cannot be undone now holds its devices as any other."""
        abandon = self.abandon
        if row.step is ClaimStep.PREPARED or row.by_hand or abandon is None:
            return False
        key = (row.uid, row.driver)
        undoing = self._abandoning[key] = self._abandoning.get(key) or asyncio.create_task(abandon(row))
        await asyncio.wait({undoing}, timeout=self._patience)
        if not undoing.done():
            return False
        del self._abandoning[key]
        try:
            return undoing.result()
        except ApportionError as error:
            _log.warning("claim.not_abandoned", claim=row.key, uid=row.uid, error=str(error))
            return False

    def _due(self, rows: Sequence[ClaimRow]) -> list[ClaimRow]:
        """Return the claims to look at: those that lost their devices, that are unfinished or have other devices than partitions, and some of the rest."""
        patient = {(row.uid, row.driver): row for row in rows if self._can_wait(row)}
        for key in self._lost:
            patient.pop(key, None)
        eager = [row for row in rows if (row.uid, row.driver) not in patient]
        return eager + [patient[key] for key in self._rotation.next(tuple(patient))]

    def _can_wait(self, row: ClaimRow) -> bool:
        """Say whether the claim's devices are all partitions that are its own as far as this agent has heard."""
        parts = all(device.partition and not device.by_hand for device in row.devices)
        return parts and row.step is ClaimStep.PREPARED and all(self._has(row, each) for each in row.devices)

    def _has(self, row: ClaimRow, device: ClaimDevice) -> bool:
        """Say whether a partition is a layout's, or has the claim as its holder, which the operator takes off when the claim loses it."""
        partition = self._context.desired.get(device.partition)
        if partition is None:
            return False
        if partition.spec.origin is Origin.LAYOUT or device.admin:
            return True
        return partition.spec.holder is not None and partition.spec.holder.uid == row.uid
