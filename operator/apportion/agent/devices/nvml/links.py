"""NVLink: which GPUs are connected with each other, directly or through switches.

In: a session and the cards. Out: the group of each card that is linked to another, named by the UUID of the group's first card,
so that groups of different nodes never have the same name. Links are counted only while they are active; a card that does not tell its own now is linked
by what it said before, and by what others tell.
"""

from collections import Counter
from collections.abc import Mapping
from functools import partial

import pynvml
import structlog

from apportion.agent.devices import pci
from apportion.agent.devices.cardcalls import CardCalls
from apportion.agent.devices.nvml.session import NOT_OFFERED, NoSession, Session, text
from apportion.agent.devices.values import Card
from apportion.errors import Silent

_log = structlog.get_logger()

_TO_GPU, _TO_SWITCH = 0, 2
"""nvmlIntNvLinkDeviceType_t"""
_SWITCHES = "switches"


class Links:
    """The links of one node's cards, as each card has last named them."""

    def __init__(self, session: Session, calls: CardCalls) -> None:
        """`calls` ask the cards, all at once."""
        self._session = session
        self._calls = calls
        self._known: dict[str, set[str]] = {}
        """What each card is linked to, by its UUID."""
        self.late = False
        """Whether a card had not answered in time when links were last asked for."""

    def groups(self, cards: Mapping[str, Card]) -> dict[str, str]:
        """Return the group of every card that is linked to another one."""
        asked = {name: partial(_peers, self._session, card) for name, card in cards.items()}
        answers = self._calls.ask("links", asked)
        self.late = any(isinstance(answer, Silent) for answer in answers.values())
        # The switches of a board are one fabric: a card that reaches one of them reaches all cards on it.
        by_bus = {card.location.pci_bus_id: name for name, card in cards.items()} | {_SWITCHES: _SWITCHES}
        # The index of the first card of each card's group.
        first = {name: index for index, name in enumerate((*cards, _SWITCHES))}
        for name, answer in answers.items():
            for peer in self._peers_of(cards[name], answer):
                low, high = sorted((first[name], first[by_bus.get(peer, name)]))
                first = {each: low if index == high else index for each, index in first.items()}
        del first[_SWITCHES]
        sizes = Counter(first.values())
        uuids = [card.uuid for card in cards.values()]
        return {name: uuids[index] for name, index in first.items() if sizes[index] > 1}

    def _peers_of(self, card: Card, answer: set[str] | Exception) -> set[str]:
        if isinstance(answer, NoSession):
            raise answer
        if isinstance(answer, Exception):
            _log.warning("nvml.links_unknown", card=card.name, error=str(answer))
            return self._known.get(card.uuid, set())
        self._known[card.uuid] = answer
        return answer


def _peers(session: Session, card: Card) -> set[str]:
    handle = session.handle(card.uuid, card.name)
    found: set[str] = set()
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = session.ask("nvmlDeviceGetNvLinkState", handle, link, none_on=NOT_OFFERED, about=card.name)
        if not state:
            continue
        kind = session.ask(
            "nvmlDeviceGetNvLinkRemoteDeviceType", handle, link, none_on=NOT_OFFERED, about=card.name
        )
        if kind == _TO_SWITCH:
            found.add(_SWITCHES)
        elif kind == _TO_GPU:
            remote = session.call("nvmlDeviceGetNvLinkRemotePciInfo", handle, link, about=card.name)
            found.add(pci.bus_id(text(remote.busId)))
    return found
