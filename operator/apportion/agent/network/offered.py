"""Offered interfaces: which NICs have an interface that a claim can get now.

In: the node's NICs, the interfaces of the host, the addresses of the Node. Out: attribute `networkDevice` of each NIC, for slices. A NIC
without such an interface is offered all the same: claims without `NetworkConfig` use its character devices.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path

import structlog

from apportion.agent.devices.threads import OneCall, in_own_thread
from apportion.agent.devices.values import Card, CardKind
from apportion.agent.lifecycle.context import AgentContext
from apportion.agent.network.hostneeds import host_needs
from apportion.api.contract import NETWORK_DEVICE
from apportion.errors import ApportionError, NotReady

_log = structlog.get_logger()


class OfferedInterfaces:
    """Those of one node."""

    def __init__(
        self,
        context: AgentContext,
        host: Path,
        node_addresses: Callable[[], Awaitable[Collection[str]]],
        *,
        patience: float = 5.0,
    ) -> None:
        """`host` is the network namespace of the node, `node_addresses` returns the addresses of its Node object.

        `patience`: seconds for the kernel's answer, which waits for every driver that changes an interface, also for one that hangs.
        """
        self._context = context
        self._host = host
        self._node_addresses = node_addresses
        self._patience = patience
        self._asked = OneCall[dict[str, str]]()
        """What the kernel is asked."""
        self._offered: Mapping[str, bool] = {}
        """By card; what could not be found out is not in it."""

    async def look(self) -> bool:
        """Look which can be given now; returns whether that changed. What cannot be read stays as it was."""
        nics = [card for card in self._context.hardware.cards.values() if card.kind == CardKind.NIC]
        if not nics:
            return False
        needs: Mapping[str, str] = {}
        try:
            if any("interface" in card.attributes for card in nics):
                addresses = await self._node_addresses()
                needs = await self._needs(addresses)
        except ApportionError as error:
            _log.warning("network.not_looked", error=str(error))
            return False
        # The host does not see an interface that is in a pod.
        away = {row.card for row in self._context.journal.networks()}
        offered = {
            card.name: card.name in away or needs.get(str(card.attributes.get("interface", ""))) == ""
            for card in nics
        }
        changed, self._offered = offered != self._offered, offered
        return changed

    async def _needs(self, addresses: Collection[str]) -> Mapping[str, str]:
        """Return why the node needs each interface. Raises NotReady, also when the kernel does not say so in time."""
        found = await self._asked.answered(
            lambda: in_own_thread(host_needs, self._host, addresses), self._patience
        )
        if found is None:
            raise NotReady("the kernel has not told yet what interfaces there are: a driver may hang")
        return found.result()

    def described(self, card: Card) -> Card:
        """Return the card with what is known of its interface."""
        if card.name not in self._offered:
            return card
        return replace(card, attributes={**card.attributes, NETWORK_DEVICE: self._offered[card.name]})
