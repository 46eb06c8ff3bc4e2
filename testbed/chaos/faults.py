"""Faults that go beside the kills of a round: what else a node suffers while its agent dies.

In: a node, randomness. Out: faults begun, changed while no agent runs, and ended; each with its words for the report.
"""

from random import Random
from typing import Final

from testbed.chaos.node import ChaosNode

_P_HANG: Final = 0.03
"""Probability that a card answers late once, in one round."""
_P_FULL_DISK: Final = 0.05
"""Probability that the journal's disk is full from a round's begin until after its last kill."""
_P_PAUSE: Final = 0.05
"""Probability that the Node asks for the driver to be let go of, from a round's begin until after its last kill."""
_P_SECOND_DRIVER: Final = 0.2
"""Probability that the node's other driver changes between well, failing and gone, before an agent starts."""


class RoundFaults:
    """The faults of one node's rounds."""

    def __init__(self, node: ChaosNode) -> None:
        self._node = node
        self._paused = False

    async def begin(self, random: Random) -> str:
        """Begin those of one round, while the agent runs; returns their words."""
        words = []
        if random.random() < _P_HANG:
            self._node.hardware.hang()
            words.append(" with a card that answers late")
        if self._node.disk is not None and random.random() < _P_FULL_DISK:
            self._node.disk.fill()
            words.append(" on a full disk")
        if random.random() < _P_PAUSE:
            await self._node.pause_driver(on=True)
            self._paused = True
            words.append(" while the driver is to be let go of")
        return "".join(words)

    def change(self, random: Random) -> str:
        """Change what changes only while no agent runs; returns the words for it."""
        if random.random() >= _P_SECOND_DRIVER:
            return ""
        state = self._node.hardware.change_second_driver(random)
        return f" beside a driver that is {state}" if state else ""

    async def end(self) -> None:
        """End those that would keep the round's scenarios from ending."""
        if self._paused:
            await self._node.pause_driver(on=False)
            self._paused = False
        if self._node.disk is not None:
            self._node.disk.free()
