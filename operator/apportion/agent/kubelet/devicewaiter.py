"""Waits until a device of a claim can be used: a partition until it is cut, a whole card until nothing is cut on it.

In: a claim's row, one of its devices. Out: the device bound to its Partition, and what a container needs for it; or NotReady.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from apportion.agent.cdi import Injection
from apportion.agent.devices.values import Card, Edits, LivePartition, PartitionPlace
from apportion.agent.kubelet.claimdevices import cut_state, why_unusable
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimDevice, ClaimRow, Step
from apportion.agent.wakeup import woken
from apportion.api.partition import Partition
from apportion.errors import HardwareError, NotReady

LONGEST_WAIT = 1.0
"""Seconds after which a partition is looked at again although no change was reported."""


class DeviceWaiter:
    """For the prepare calls of one driver."""

    def __init__(self, context: AgentContext, try_now: Callable[[str, str], None]) -> None:
        """`try_now(card, Partition UID)` asks the card's worker to try without delay."""
        self._context = context
        self._try_now = try_now

    async def wait(self, row: ClaimRow, device: ClaimDevice, seconds: float) -> tuple[ClaimDevice, Injection]:
        """Return one device of the claim when it can be used. Raises NotReady after `seconds`, and HardwareError."""
        context = self._context
        card = context.hardware.cards[device.card]
        if device.device == card.name:
            async with context.lock(card.name):
                await self._make_whole(row, card)
                # Asked after the mode was switched: that may have given the card another device number.
                edits = await context.hardware.edits(card.name)
            return device, Injection(
                device.device, device.requests, card.uuid, partition=False, edits=edits, share=device.share
            )
        deadline = context.clock() + seconds
        why = why_unusable(None, row, device)
        asked = False
        while context.clock() < deadline:
            changed = context.partition_changed.next
            async with context.lock(card.name):
                partition = context.desired.of_device(device.device)
                why = why_unusable(partition, row, device)
                if partition is not None and not why:
                    live, why = await self._live(partition)
                    if live is not None:
                        # Inside the card's lock: from here on no worker removes it.
                        bound = await self._bind(row, device, partition)
                        return bound, Injection(
                            device.device, device.requests, live.uuid, partition=True, edits=live.edits
                        )
            if partition is not None and not asked:
                self._try_now(card.name, partition.metadata.uid)
                asked = True
            await woken(changed, min(LONGEST_WAIT, max(deadline - context.clock(), 0.01)))
        raise NotReady(f"ResourceClaim {row.key}: {why}")

    async def edits(self, row: ClaimRow, live: Mapping[PartitionPlace, LivePartition]) -> dict[str, Edits]:
        """Return what containers need now by CDI id of a prepared claim's device; one that cannot be asked is left out.

        `live` is what was just seen on the hardware.
        """
        found: dict[str, Edits] = {}
        for device in row.devices:
            if device.device == device.card:
                with suppress(HardwareError):
                    found[device.cdi] = await self._context.hardware.edits(device.card)
                continue
            part = self._context.journal.partition(device.partition)
            there = live.get(part.place) if part is not None else None
            if part is not None and there is not None and there.uuid == part.uuid:
                found[device.cdi] = there.edits
        return found

    async def _bind(self, row: ClaimRow, device: ClaimDevice, partition: Partition) -> ClaimDevice:
        """Write into the journal which Partition the claim's device is."""
        bound = replace(device, partition=partition.metadata.uid)
        if bound != device:
            row = self._context.journal.claim(row.uid, row.driver) or row
            devices = tuple(bound if each == device else each for each in row.devices)
            await asyncio.to_thread(self._context.journal.put_claim, replace(row, devices=devices))
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

    async def _make_whole(self, row: ClaimRow, card: Card) -> None:
        """Make a card usable uncut; the caller holds its lock. Raises NotReady while partitions are on it."""
        if all(device.admin for device in row.devices if device.device == card.name):
            return
        there = (await self._context.live(card.name)).values()
        if there:
            names = ", ".join(f"{live.profile} at {live.placement.start}" for live in there)
            raise NotReady(f"ResourceClaim {row.key}: {card.name} is still cut into {names}")
        await self._context.hardware.make_whole(card.name)
