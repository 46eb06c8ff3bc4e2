"""The discovery of the node's cards: at the start, and now and then for those that did not answer.

In: options, backends, the journal. Out: cards whose names the journal keeps, or the end of the agent, which then starts anew.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping

import structlog

from apportion.agent.backends import PAUSABLE, Found, arrived, reconfigured
from apportion.agent.cdi import CdiFolder
from apportion.agent.devices.threads import OneCall, in_own_thread
from apportion.agent.devices.values import Card, CardKind
from apportion.agent.driverpause import DriverPause
from apportion.agent.kubelet.claimfiles import prepared_cards
from apportion.agent.kubelet.metadata import MetadataFolder
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.settings import AgentOptions
from apportion.agent.slices.publishedcards import published_cards
from apportion.cluster.kinds import SLICES
from apportion.errors import NotReady

_log = structlog.get_logger()


class Discovery:
    """Of one agent."""

    def __init__(
        self,
        options: AgentOptions,
        context: AgentContext,
        found: Found,
        pause: DriverPause,
        *,
        patience: float = 5.0,
    ) -> None:
        """`patience`: seconds for the answer of a driver that was not there; one that takes longer is waited for beside everything else."""
        self._options = options
        self._context = context
        self._absent = found.absent
        self._generic = found.generic
        self._pause = pause
        self._patience = patience
        self._asked: defaultdict[str, OneCall[str]] = defaultdict(OneCall)
        """Whether drivers are there that were not, by the names of their backends."""

    async def first(self) -> Mapping[str, Card]:
        """Return the cards. Their names are those that the journal has; where it has none, those of prepared claims, and of the node's slices.

        It has none when it is new, was lost, or is of an older release. Kubelet deletes slices when no agent ran for half a minute.
        """
        journal, options = self._context.journal, self._options
        if not journal.known():
            await asyncio.to_thread(lambda: journal.learn_names(self._prepared_cards()))
            found = await self._context.client.list(SLICES, fieldSelector=f"spec.nodeName={options.node}")
            drivers = {**options.drivers, **self._generic.drivers}
            named = {CardKind.GPU, *self._generic.types}
            cards = published_cards(found.get("items") or (), options.node, drivers.values(), named)
            await asyncio.to_thread(journal.learn_names, cards)
        return await self._discover()

    async def later(self) -> frozenset[str]:
        """Return the cards that came, went, or say something else: after a reset, for example.

        Raises NotReady when a driver is there at last, or generic devices are configured anew: the agent then starts anew.
        """
        absent = [name for name in self._absent if name != PAUSABLE or not self._pause.why]
        for name in absent:
            if await self._arrived(name):
                raise NotReady(f"the driver of {name} answers now: the agent starts anew to serve its cards")
        if await in_own_thread(reconfigured, self._options, self._generic):
            raise NotReady(f"{self._options.generic_devices} says something else now: the agent starts anew")
        hardware = self._context.hardware
        if not await hardware.look():
            return frozenset()
        known = hardware.cards
        try:
            found = await self._discover()
        except NotReady as error:
            _log.warning("journal.unwritable", error=str(error))
            return frozenset()
        return frozenset(name for name in found.keys() | known.keys() if found.get(name) != known.get(name))

    async def _arrived(self, name: str) -> bool:
        """Say whether a driver answers that was not there; one that hangs is no other card's trouble."""
        call = self._asked[name]
        found = await call.answered(lambda: in_own_thread(arrived, self._options, [name]), self._patience)
        return found is not None and bool(found.result())

    def _prepared_cards(self) -> dict[str, str]:
        """Return the UUIDs of cards in use by the names under which claims were prepared on them, of the kinds that are named by the journal."""
        options, found = self._options, dict[str, str]()
        for driver in (options.drivers[CardKind.GPU], *self._generic.drivers.values()):
            metadata = MetadataFolder(options.plugins_dir / driver, driver)
            found |= prepared_cards(CdiFolder(options.cdi_dir), metadata, driver)
        return found

    async def _discover(self) -> Mapping[str, Card]:
        cards = await self._context.hardware.discover()
        uuids = {card.name: card.uuid for card in cards.values()}
        former = {card.name: card.former_uuid for card in cards.values()}
        await asyncio.to_thread(self._context.journal.note_cards, uuids, former)
        return cards
