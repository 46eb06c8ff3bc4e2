"""The node as it should be published, from hardware, journal and Partition objects.

In: the agent's parts, the claims that hold devices. Out: an inventory (`slices.compose`), and the health of devices for kubelet.
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping

from apportion.agent.deviceplugins import offered_twice, tainted
from apportion.agent.devices.stickyerrors import StickyErrors
from apportion.agent.devices.values import Card, Health
from apportion.agent.kubelet.health import DeviceHealth
from apportion.agent.kubelet.heldclaims import HeldClaims
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.rows import ClaimRow, PartitionRow
from apportion.agent.slices.compose import compose
from apportion.agent.slices.naming import partition_devices
from apportion.agent.slices.nodeinventory import NodeInventory
from apportion.api.policy import SharingStrategy


class InventoryBuilder:
    """Reads hardware, journal and held claims, and builds what the slices should show."""

    def __init__(
        self,
        context: AgentContext,
        held: HeldClaims,
        *,
        quarantine: bool = False,
        sticky_errors: StickyErrors | None = None,
        described: Callable[[Card], Card] = lambda card: card,
        failing: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        """`quarantine`: a card with a foreign partition is tainted as a whole; `sticky_errors` has partitions by UUID, too.

        `described` adds to a card what its backend does not know; `failing` says why what was set up for the programs of a device
        does not work, by device.
        """
        self._described = described
        self._quarantine = quarantine
        self._sticky_errors = sticky_errors or StickyErrors()
        self._marked: Mapping[str, str] = {}
        self._ask_failing = failing
        self.failing: Mapping[str, str] = {}
        """Why what was set up for the programs of a device does not work, as last asked."""
        self.off_fabric: Mapping[str, str] = {}
        """Why cards have not joined their fabric."""
        self._context = context
        self._held = held
        self.health: Mapping[str, Health] = {}
        """By card, as last read."""
        self.last_read = 0.0
        """When the hardware last answered, in seconds since the epoch."""

    async def read_health(self) -> bool:
        """Ask the hardware how it is; returns whether the health of a card or partition changed."""
        health = await self._context.hardware.health()
        marked = await asyncio.to_thread(self._sticky_errors.all)
        fabric = await self._context.hardware.fabric()
        now = health, marked, fabric, self._ask_failing()
        changed = now != (self.health, self._marked, self.off_fabric, self.failing)
        self.health, self._marked, self.off_fabric, self.failing = now
        self.last_read = time.time()
        return changed

    def sick_partitions(self) -> Mapping[str, PartitionRow]:
        """Return the partitions that an error hit which their cards have not, by the UID of their Partition."""
        return self._sick(self._context.journal.partitions())

    def devices(self, kind: str) -> tuple[DeviceHealth, ...]:
        """Return the health of all devices of a kind: whole cards, partitions that can be cut, those of layouts."""
        rows = self._context.journal.partitions()
        hit = {row.device for row in self._sick(rows).values()}
        layouts = [row for row in rows.values() if row.layout]
        found: list[DeviceHealth] = []
        for card in self._context.hardware.cards.values():
            if card.kind == kind:
                names = [card.name, *(part.name for part in partition_devices(card))]
                names += [row.device for row in layouts if row.place.card == card.name]
                health = self.health.get(card.name, Health.HEALTHY)
                found += [
                    DeviceHealth(name, name, Health.SICK, "" if name in hit else self.failing[name])
                    if name in hit | self.failing.keys() and health is Health.HEALTHY
                    else DeviceHealth(name, card.name, health)
                    for name in names
                ]
        return tuple(found)

    def _sick(self, rows: Mapping[str, PartitionRow]) -> Mapping[str, PartitionRow]:
        return {uid: row for uid, row in rows.items() if row.uuid in self._marked}

    async def build(self) -> NodeInventory:
        """Return what is to be published now; waits until it is known which claims have lost their devices."""
        await self._held.looked.wait()
        if self._context.node is not None:
            await self._context.node.synced.wait()
        sharing = await self._context.sharing()
        # Journal and held claims are read at one moment, after all that is waited for.
        live, rows = await self._context.looked()
        cards = self._context.hardware.cards
        made = compose(
            tuple(map(self._described, cards.values())),
            live,
            rows,
            self._held.rows(),
            self.health,
            frozenset(self._context.unsupported),
            left=self._context.left(),
            stuck=frozenset(self._context.stuck),
            marked=frozenset(self._marked),
            fabric=self.off_fabric,
            failing=self.failing.keys(),
            sharing=sharing,
            strategies=_strategies(self._context.journal.claims()),
            quarantine=self._quarantine,
        )
        return tainted(made, offered_twice(made.cards, self._context.offered))


def _strategies(claims: Iterable[ClaimRow]) -> Mapping[str, SharingStrategy]:
    return {
        device.card: SharingStrategy.MPS if device.share.cores else SharingStrategy.TIME_SLICING
        for claim in claims
        for device in claim.devices
        if device.share is not None and not device.admin
    }
