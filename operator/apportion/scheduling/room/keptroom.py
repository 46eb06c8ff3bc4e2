"""Kept: room of a node that is kept free for pods that come later.

In: amounts, host ports. Out: whether less is kept than before.
"""

from dataclasses import dataclass

from apportion.dra.node import Resources
from apportion.dra.podrelations import HostPort


@dataclass(frozen=True, slots=True)
class Kept:
    """What is kept free on a node for pods that come later."""

    amounts: Resources
    """Of its resources, `pods` included."""
    ports: tuple[HostPort, ...] = ()

    def leaves(self, former: "Kept") -> bool:
        """Say whether it keeps less of anything than `former`."""
        amounts = former.amounts.items()
        return not {*former.ports} <= {*self.ports} or any(
            amount > self.amounts.get(name, 0) for name, amount in amounts
        )
