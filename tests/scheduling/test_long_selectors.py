"""Long selectors are compiled before their demand is decided, one at a time, and others do not wait for them."""

from collections.abc import Callable

from apportion.cel import Programs
from apportion.cel.program import Program
from apportion.cluster.client import Client
from apportion.errors import SelectorError
from tests.observedcluster import ObservedCluster, request

LONG = [f"{'1 == 1 && ' * 800} {number} < 9" for number in range(4)]


class Watched(Programs):
    """Tells of each long selector that it is asked for."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def get(self, text: str) -> Program | SelectorError:
        if len(text) > 1000:
            self._tell(text)
        return super().get(text)


def cluster(tell: Callable[[str], None]) -> ObservedCluster:
    """Return a node of three devices."""
    world = ObservedCluster(programs=Watched(tell))
    world.device_class("gpu")
    world.node("n1", cpu="64")
    devices = [{"name": f"gpu-{number}", "attributes": {}} for number in range(3)]
    world.slice("n1", "n1-devices", {"devices": devices}, 1)
    return world


async def test_others_are_served_before_long_selectors_are_compiled(unanswered: Client) -> None:
    """The claim with the selectors comes first, and has its device in the same pass nevertheless."""
    served: list[set[str]] = []
    world = cluster(lambda _: served.append(set(world.places())))
    selectors = [{"cel": {"expression": text}} for text in LONG]
    world.wait_for("long", request("gpu", selectors=selectors))
    world.wait_for("other", request("gpu"))

    cycle = world.cycle(unanswered)
    cycle.once()

    assert world.places().keys() == {"long", "other"}
    assert served == [{"other"}] * 4

    world.wait_for("again", request("gpu", selectors=selectors))
    cycle.once()
    assert "again" in world.places()
    assert len(served) == 4
