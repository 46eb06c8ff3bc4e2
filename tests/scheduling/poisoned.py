"""A selector on which the allocator breaks down, as it would by a defect of ours."""

from apportion.allocator.rules.selectors import Selector
from apportion.cel import Programs
from apportion.errors import SelectorError
from tests.observedcluster import ObservedCluster, request

POISON = 'device.driver != "poison"'


class Poisoned(Programs):
    """Compiles all selectors but one, on which it breaks down."""

    def get(self, text: str) -> Selector | SelectorError:
        if text == POISON:
            raise ZeroDivisionError("a defect")
        return super().get(text)


def poisoned_world() -> ObservedCluster:
    """Return a world with two claims that wait for one card; the selector of the first is poison."""
    world = ObservedCluster(programs=Poisoned())
    world.node("n1")
    world.card("n1")
    world.device_class("gpu")
    world.wait_for("first", request("gpu", expression=POISON))
    world.wait_for("second", request("gpu"))
    return world
