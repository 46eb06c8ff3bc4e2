"""Device plugins on the agent's node: both would give the same cards away, and neither knows whom the other has given one.

In: extended resources that the Node offers, what is to be published. Out: taints on all devices of such cards, and what to tell people.
Names are those of NVIDIA's k8s-device-plugin (resource names with `.shared` and `mig-`) and of Huawei's ascend-device-plugin.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from apportion.agent.devices.values import Card, CardKind
from apportion.agent.slices.nodeinventory import PLUGIN, NodeInventory, all_devices

_RESOURCES: Final[Mapping[str, re.Pattern[str]]] = {
    CardKind.GPU: re.compile(r"nvidia\.com/(gpu|mig-.+)(\.shared)?"),
    CardKind.NPU: re.compile(r"huawei\.com/(Ascend.+|npu)"),
}


def offered_twice(cards: Iterable[Card], resources: Iterable[str]) -> dict[str, list[str]]:
    """Return the kinds of these cards that device plugins offer as well, each with the names of their resources."""
    kinds = {card.kind for card in cards} & _RESOURCES.keys()
    found = {kind: sorted(filter(_RESOURCES[kind].fullmatch, resources)) for kind in sorted(kinds)}
    return {kind: names for kind, names in found.items() if names}


def plugin_message(cards: Iterable[Card], resources: Iterable[str]) -> str:
    """Return what to tell people about those of these cards that device plugins offer as well; "" without any."""
    twice = offered_twice(cards, resources)
    if not twice:
        return ""
    names = ", ".join(name for found in twice.values() for name in found)
    return (
        f"device plugins offer {names} on this Node, where the agent publishes the same cards: until they are gone, no device of kind"
        f" {', '.join(twice)} goes to a claim (taint {PLUGIN.key}) or is cut (docs/from-device-plugins.md)"
    )


def tainted(inventory: NodeInventory, kinds: Iterable[str]) -> NodeInventory:
    """Return what is to be published with a taint on all devices of these kinds of cards."""
    twice = {*kinds}
    cards = [card for card in inventory.cards if card.kind in twice]
    devices = [device for card in cards for device in all_devices(card, inventory.static)]
    own = {device: (*inventory.taints.get(device, ()), PLUGIN) for device in devices}
    return replace(inventory, taints={**inventory.taints, **own}) if own else inventory
