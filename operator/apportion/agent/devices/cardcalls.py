"""Calls about the cards of one driver, all at once: one that hangs, or takes long, costs the others one deadline.

In: a call by card. Out: what came of each: its answer, or the error that it ended in. For use in a thread of the backend's own; the
threads are daemons, so that a driver call that hangs keeps the process from nothing.
"""

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future, wait
from typing import Any, TypeVar

from apportion.errors import BrokenInput, HardwareError, Silent

Card = TypeVar("Card", bound=Hashable)
R = TypeVar("R")


class CardCalls:
    """Of one driver. A card whose call is out is not asked anew before it is back: each would cost a thread for ever."""

    def __init__(self, patience: float = 25.0) -> None:
        """`patience`: seconds for all cards together. A tool of a driver has 20, and the first look at all cards 60."""
        self._patience = patience
        self._out: dict[Hashable, Future[Any]] = {}

    def ask(
        self, about: str, calls: Mapping[Card, Callable[[], R]]
    ) -> dict[Card, R | HardwareError | BrokenInput]:
        """Return what came of each call; `about` tells the calls of one card apart. Other errors than those are raised."""
        late = {card for card in calls if not self._out.get((about, card), _BACK).done()}
        asked = {card: _started(call) for card, call in calls.items() if card not in late}
        self._out |= {(about, card): answer for card, answer in asked.items()}
        done, _ = wait(asked.values(), self._patience)
        found: dict[Card, R | HardwareError | BrokenInput] = {}
        for card in calls:
            found[card] = Silent(f"{about}: the driver has not answered in time")
            if card in asked and asked[card] in done:
                try:
                    found[card] = asked[card].result()
                except (HardwareError, BrokenInput) as error:
                    found[card] = error
        return found


_BACK: Future[Any] = Future()
_BACK.set_result(None)


def _started(call: Callable[[], R]) -> Future[R]:
    answer: Future[R] = Future()

    def run() -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it goes to who waits
            answer.set_exception(error)

    threading.Thread(target=run, name="hardware", daemon=True).start()
    return answer
