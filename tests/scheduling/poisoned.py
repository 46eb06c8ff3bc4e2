"""A selector on which the allocator breaks down, as it would by a defect of ours."""

from apportion.allocator.rules.selectors import Selector
from apportion.api.contract import GATE
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


def poisoned_pods(*, priority: int = 5) -> ObservedCluster:
    """Return the same with pods behind our gate, for a card that a pod of low priority has."""
    world = poisoned_world()
    used = world.claim("low", request("gpu"))
    pod = world.pod("low", "low", spec={"nodeName": "n1", "priority": -5})
    user = {"resource": "pods", "name": "low", "uid": pod["metadata"]["uid"]}
    world.allocate(used, "n1", "gpu-0", timestamp=world.time(-3600), reservedFor=[user])
    for name in ("first", "second"):
        world.pod(name, name, gates=(GATE,), spec={"priority": priority})
    return world
