"""Results of costly selectors that others' selectors have displaced: they are evaluated beside the passes again, and not by the next decision."""

from apportion.allocator.ranking.querycache import MOST_TEXTS
from apportion.cel import Programs
from apportion.cel.program import Program
from apportion.cluster.client import Client
from apportion.dra.claim import Claim
from apportion.dra.device import Device
from apportion.errors import SelectorError
from apportion.scheduling.candidates.candidates import TOLERATIONS
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.test_costly_selectors import nested

EVERYTHING = "device.attributes.size()"
"""It may read all of a device, so that each node has results of its own."""


class Counted(Programs):
    """Counts the evaluations of nested selectors: those that are measured, and those that deciding makes."""

    def __init__(self) -> None:
        super().__init__()
        self.measured = self.decided = 0

    def get(self, text: str) -> Program | SelectorError:
        found = super().get(text)
        return _Counted(found, self) if isinstance(found, Program) and ".all" in text else found


class _Counted(Program):
    __slots__ = ("_counted", "_counts")

    def __init__(self, program: Program, counts: Counted) -> None:
        super().__init__(program.source, None, None, program.reads, program.bound)
        self._counted = program
        self._counts = counts

    def match(self, device: Device) -> bool:
        self._counts.decided += 1
        return self._counted.match(device)

    def measure(self, device: Device) -> tuple[bool | SelectorError, int]:
        self._counts.measured += 1
        return self._counted.measure(device)


def read_by_others(world: ObservedCluster) -> None:
    """Let so many other claims' selectors be evaluated on all devices that no more results are kept."""
    state = world.snapshot.state
    for number in range(MOST_TEXTS + 1):
        expression = f"{EVERYTHING} > {number}"
        raw = {
            "metadata": {"name": "other"},
            "spec": {"devices": {"requests": [request("gpu", expression=expression)]}},
        }
        query = state.queries.of((Claim.from_json(raw),), state.classes, state.features, TOLERATIONS)
        for name in state.names():
            state.view(name).selected(query.alternatives[0], state.selectors)


async def test_what_was_forgotten_is_evaluated_before_the_next_decision(unanswered: Client) -> None:
    """Its verdict outlived it, and a pass stood still for seconds."""
    text = f"{nested(20)} && {EVERYTHING} >= 0"
    programs = Counted()
    world = ObservedCluster(programs=programs)
    world.device_class("gpu")
    for number in range(4):
        world.node(f"n{number}", cpu="64")
        rows = [
            {"name": f"gpu-{index}", "attributes": {"ix": {"int": 2 * number + index}}} for index in (0, 1)
        ]
        world.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    cycle = world.cycle(unanswered)
    world.wait_for("first", request("gpu", expression=text))
    cycle.once()
    assert (programs.measured, programs.decided) == (8, 0)
    read_by_others(world)
    taken = {str(place) for place in world.places().values()}
    for name in {"n0", "n1", "n2", "n3"} - taken:
        world.allocate(world.claim(f"on-{name}"), name, "gpu-0")
    for _ in range(3):
        cycle.once()
    world.wait_for("second", request("gpu", expression=text))
    cycle.once()
    assert world.places().keys() >= {"first", "second"}
    assert programs.decided == 0
