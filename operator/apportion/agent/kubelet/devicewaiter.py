"""Waits until a device of a claim can be used: a partition until it is cut, a whole card until nothing is cut on it.

In: a claim's row, one of its devices. Out: the device bound to its Partition, and what a container needs for it; or NotReady.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from apportion.agent.cdi import Injection
from apportion.agent.devices.values import Card, LivePartition, PartitionPlace
from apportion.agent.kubelet.claimdevices import cut_state, why_unusable
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, PartitionRow, Step
from apportion.agent.wakeup import woken
from apportion.api.partition import Partition
from apportion.errors import HardwareError, NotReady, Silent

LONGEST_WAIT = 1.0
"""Seconds after which a device is looked at again although no change was reported."""


class DeviceWaiter:
    """For the prepare calls of one driver."""

    def __init__(self, context: AgentContext, try_now: Callable[[str, str], None]) -> None:
        """`try_now(card, Partition UID)` asks the card's worker to try without delay."""
        self._context = context
        self._try_now = try_now

    async def wait(
        self, row: ClaimRow, device: ClaimDevice, deadline: float
    ) -> tuple[ClaimDevice, Injection]:
        """Return one device of the claim when it can be used. Raises NotReady after `deadline`, and HardwareError; it looks at least once."""
        context = self._context
        look = self._whole if device.device == device.card else self._part
        asked = False
        while True:
            changed = context.partition_changed.next
            async with context.lock(device.card):
                uid, found, why = await look(row, device)
                if found is not None:
                    # Inside the card's lock: from here on no worker removes it.
                    return (await self._bind(row, device, uid) if uid else device), found
            if context.clock() >= deadline:
                raise NotReady(f"ResourceClaim {row.key}: {why}")
            if uid and not asked:
                self._try_now(device.card, uid)
                asked = True
            await woken(changed, min(LONGEST_WAIT, max(deadline - context.clock(), 0.01)))

    async def _whole(self, row: ClaimRow, device: ClaimDevice) -> tuple[str, Injection | None, str]:
        """Return a whole card once nothing is on it, else what is; as `_part`. Raises NotReady for what nobody is about to remove."""
        card = self._context.hardware.cards[device.card]
        try:
            why = await self._make_whole(row, card)
            # Asked after the mode was switched: that may have given the card another device number.
            return "", None if why else await self._card(device), why
        except Silent as error:
            # It may answer yet: a driver takes seconds to open a card that nobody uses.
            return "", None, str(error)

    async def _part(self, row: ClaimRow, device: ClaimDevice) -> tuple[str, Injection | None, str]:
        """Return the UID of a partition's object, "" for none, and the partition once it is cut; else the reason why not."""
        partition = self._context.partition_for(device.device, row.uid)
        uid = partition.metadata.uid if partition is not None else ""
        why = why_unusable(partition, row, device)
        if partition is None or why:
            return uid, None, why
        live, why = await self._live(partition)
        if live is None:
            return uid, None, why
        return uid, _part(device, live), ""

    async def now(self, row: ClaimRow, live: Mapping[PartitionPlace, LivePartition]) -> list[Injection]:
        """Return a prepared claim's devices as containers need them now; one that cannot be asked is left out.

        `live` is what was just seen on the hardware.
        """
        found: list[Injection] = []
        for device in row.devices:
            if device.device == device.card:
                with suppress(HardwareError):
                    found.append(await self._card(device))
                continue
            part = self._context.journal.partition(device.partition)
            there = live.get(part.place) if part is not None else None
            if part is not None and there is not None and there.uuid == part.uuid:
                found.append(_part(device, there))
        return found

    async def _card(self, device: ClaimDevice) -> Injection:
        """Return a whole card as it is now. Raises HardwareError."""
        edits = await self._context.hardware.edits(device.card)
        uuid = self._context.hardware.cards[device.card].uuid
        return Injection(
            device.device, device.requests, uuid, partition=False, edits=edits, share=device.share
        )

    async def _bind(self, row: ClaimRow, device: ClaimDevice, uid: str) -> ClaimDevice:
        """Write into the journal which Partition (UID) the claim's device is."""
        bound = replace(device, partition=uid)
        if bound != device:
            row = self._context.journal.claim(row.uid, row.driver) or row
            devices = tuple(bound if each == device else each for each in row.devices)
            await asyncio.to_thread(self._context.journal.advance_claim, replace(row, devices=devices))
            self._context.at("claim.bound")
        return bound

    async def _live(self, partition: Partition) -> tuple[LivePartition | None, str]:
        """Return the partition if journal and hardware agree that it is there and complete; else the reason why not."""
        name = partition.metadata.name
        why = f"partition {name} is not cut yet: {cut_state(partition)}"
        row = self._context.journal.partition(partition.metadata.uid)
        if row is None or row.step is not Step.READY:
            return None, why
        try:
            there = await self._context.live(row.place.card)
        except HardwareError as error:
            # What was last seen on a card that does not answer is no reason to start a container on it.
            return None, f"partition {name} cannot be seen: {error}"
        found = there.get(row.place)
        if found is not None and found.uuid == row.uuid and found.complete:
            return found, ""
        self._try_now(row.place.card, partition.metadata.uid)
        return None, why

    async def _make_whole(self, row: ClaimRow, card: Card) -> str:
        """Make a card usable uncut, or return what has to leave it first; the caller holds its lock.

        The operator deletes what nobody holds once it has allocated the card. Raises NotReady for what stays.
        """
        if all(device.admin for device in row.devices if device.device == card.name):
            return ""
        live = await self._context.live(card.name)
        rows = self._context.journal.partitions_of(card.name)
        if not live:
            for each in rows:
                if self._context.may_come(each.uid):
                    return f"{each.place}: the driver has not made it in time, and may make it yet"
            await self._context.hardware.make_whole(card.name)
            return ""
        names = ", ".join(f"{found.profile} at {found.placement.start}" for found in live.values())
        why = f"{card.name} is still cut into {names}"
        at = {each.place: each for each in rows}
        ours = [at[place] for place, found in live.items() if _is_ours(at.get(place), found)]
        if len(ours) < len(live) or any(each.layout or self._context.users(each.uid) for each in ours):
            raise NotReady(f"ResourceClaim {row.key}: {why}")
        return why


def _part(device: ClaimDevice, live: LivePartition) -> Injection:
    return Injection(device.device, device.requests, live.uuid, partition=True, edits=live.edits)


def _is_ours(row: PartitionRow | None, found: LivePartition) -> bool:
    return row is not None and row.is_at(found)
