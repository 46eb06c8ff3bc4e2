"""The state of one precise evaluation: the device, the bound variables and the cost so far."""

from collections.abc import Callable
from typing import TypeAlias

from apportion.cel.values import COST_LIMIT, CostExceeded, Value


class Run:
    """One evaluation. `slots` holds the variables that macros bind, each at a place of its own."""

    __slots__ = ("cost", "device", "slots")

    def __init__(self, device: dict[str, Value], slots: int) -> None:
        self.device = device
        self.cost = 0
        self.slots: list[Value] = [None] * slots

    def spend(self, units: int) -> None:
        """Add to the cost; raises CostExceeded when the budget is spent."""
        self.cost += units
        if self.cost > COST_LIMIT:
            raise CostExceeded


Closure: TypeAlias = Callable[[Run], Value]
"""A compiled node: evaluates itself within a run."""
