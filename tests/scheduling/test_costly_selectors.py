"""What one claim's selectors may spend is bounded, whatever the API allows for one device, and nobody waits for it."""

from collections.abc import Callable, Iterator

import pytest

from apportion.api.contract import GATE
from apportion.cel import Programs
from apportion.cel.program import Program
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.dra.device import Device
from apportion.errors import SelectorError
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.settings import CycleSettings
from tests.clock import Ticking
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.evicting import SEARCHED, SteeredEvictor, holds
from tests.scheduling.givenback import UNUSED_TIMEOUT
from tests.scheduling.sliced import between, until

SMALL = CycleSettings(selectors=100_000)


def nested(size: int) -> str:
    """Return a selector that takes size x size steps on each device, and is true."""
    rounds = str(list(range(size)))
    return f'{rounds}.all(a, {rounds}.all(b, a*b + device.attributes["{GPU}"].ix >= 0))'


class Watched(Programs):
    """Tells of each evaluation of a nested selector."""

    def __init__(self, tell: Callable[[], None]) -> None:
        super().__init__()
        self._tell = tell

    def get(self, text: str) -> Program | SelectorError:
        found = super().get(text)
        return _Watched(found, self._tell) if isinstance(found, Program) and ".all" in text else found


class _Watched(Program):
    __slots__ = ("_tell", "_watched")

    def __init__(self, program: Program, tell: Callable[[], None]) -> None:
        super().__init__(program.source, None, None, program.reads, program.bound)
        self._tell = tell
        self._watched = program

    def match(self, device: Device) -> bool:
        self._tell()
        return self._watched.match(device)

    def measure(self, device: Device) -> tuple[bool | SelectorError, int]:
        self._tell()
        return self._watched.measure(device)


def cluster(
    nodes: int = 20, tell: Callable[[], None] = lambda: None, clock: Ticking | None = None
) -> ObservedCluster:
    """Return nodes of eight devices, each with a number of its own."""
    world = ObservedCluster(programs=Watched(tell), **({"clock": clock} if clock else {}))
    world.device_class("gpu")
    for number in range(nodes):
        world.node(f"n{number}", cpu="64")
        rows = [
            {"name": f"gpu-{index}", "attributes": {"ix": {"int": 8 * number + index}}} for index in range(8)
        ]
        world.slice(f"n{number}", f"n{number}-devices", {"devices": rows}, 1)
    return world


async def test_a_claim_whose_selectors_cost_too_much_is_refused_and_others_are_served(
    unanswered: Client,
) -> None:
    """Its evaluations end at the budget."""
    evaluated: list[None] = []
    world = cluster(tell=lambda: evaluated.append(None))
    world.wait_for("poison", request("gpu", expression=nested(40)))
    world.wait_for("other", request("gpu"))

    cycle = world.cycle(unanswered, SMALL)
    cycle.once()

    assert world.places().keys() == {"other"}
    assert ("poison", "CostlySelector") in world.warned
    assert ("other", "CostlySelector") not in world.warned
    spent = len(evaluated)
    assert 0 < spent < 20
    cycle.once()
    world.wait_for("poison-too", request("gpu", expression=nested(40)))
    cycle.once()
    assert ("poison-too", "CostlySelector") in world.warned
    assert len(evaluated) == spent


@pytest.mark.slow
async def test_an_event_names_claim_request_selector_and_what_was_spent(unanswered: Client) -> None:
    """The user sees which text is to blame."""
    world = cluster()
    world.wait_for("poison", request("gpu", expression=nested(40)))
    world.cycle(unanswered, SMALL).once()
    text = next(
        text for name, reason, text in world.messages if (name, reason) == ("poison", "CostlySelector")
    )
    for part in ("claim team/poison", "request gpu", "selector #0", "100000", "selectors[0]"):
        assert part in text


async def test_a_costly_selector_within_the_budget_is_served(unanswered: Client) -> None:
    """Also in the pass that evaluates it, and again for the next claim without another evaluation."""
    evaluated: list[None] = []
    world = cluster(2, lambda: evaluated.append(None))
    world.wait_for("legitimate", request("gpu", expression=nested(20)))
    cycle = world.cycle(unanswered)

    cycle.once()

    assert world.places().keys() == {"legitimate"}
    assert len(evaluated) == 16
    world.wait_for("again", request("gpu", expression=nested(20)))
    cycle.once()
    assert world.places().keys() == {"legitimate", "again"}
    assert len(evaluated) == 16


@pytest.mark.slow
async def test_every_replica_comes_to_the_same_verdict(unanswered: Client) -> None:
    """What is spent depends on the devices, not on what was evaluated before."""
    for expression, served in ((nested(10), True), (nested(13), False)):
        for before in ([], [nested(5)], [expression]):
            world = cluster(8)
            cycle = world.cycle(unanswered, SMALL)
            for number, text in enumerate(before):
                world.wait_for(f"before-{number}", request("gpu", expression=text))
                cycle.once()
            world.wait_for("judged", request("gpu", expression=expression))
            cycle.once()
            assert ("judged" in world.places(), before) == (served, before)


@pytest.mark.slow
async def test_others_are_served_while_selectors_are_evaluated(silent: Client) -> None:
    """Evaluations are made beside the passes: a claim of another tenant, of which the watch tells, is served after a few of them."""
    world, evaluated = with_costly_claims()

    assert await evaluated_until_another_is_served(world, evaluated, silent) < 15


def with_costly_claims() -> tuple[ObservedCluster, list[None]]:
    """Return a cluster where one tenant's claims have selectors that take long, and a list that grows with each evaluation."""
    evaluated: list[None] = []
    world = cluster(50, lambda: evaluated.append(None), Ticking())
    for number in range(5):
        world.wait_for(f"poison-{number}", request("gpu", expression=f"{nested(30)} && {number} > -1"))
    return world, evaluated


async def evaluated_until_another_is_served(
    world: ObservedCluster, evaluated: list[None], client: Client
) -> int:
    """Return how often selectors are evaluated from the arrival of another tenant's claim until it has its device."""
    began: list[int] = []
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)

    def arrive() -> Iterator[None]:
        yield from until(lambda: len(evaluated) > 0)
        began.append(len(evaluated))
        world.wait_for("other", request("gpu"))
        debouncer.wake()
        yield from until(lambda: "other" in world.places())

    cycle = world.cycle(client, CycleSettings(selectors=5_000_000), debouncer)
    await between(cycle, arrive())

    assert world.places().keys() == {"other"}
    return len(evaluated) - began[0]


@pytest.mark.slow
async def test_a_refusal_is_explained_without_another_evaluation(unanswered: Client) -> None:
    """An explanation tries many devices, in one step that nobody can interrupt: it reads what was evaluated before."""
    evaluated: list[None] = []
    world = cluster(8, lambda: evaluated.append(None))
    never = f"{nested(20)} && !{nested(20)}"
    world.wait_for("hopeless", request("gpu", expression=never))

    world.cycle(unanswered).once()

    assert len(evaluated) == 64
    [text] = [text for name, reason, text in world.messages if (name, reason) == ("hopeless", "NotAllocated")]
    assert "selector #0 does not match" in text


@pytest.mark.slow
async def test_what_a_stalled_pod_keeps_is_looked_at_without_another_evaluation(unanswered: Client) -> None:
    """Whether others could use it is asked about those that wait, of which one has selectors that cost too much."""
    evaluated: list[None] = []
    world = cluster(tell=lambda: evaluated.append(None))
    for number in range(20):
        name = f"kept-{number}"
        world.allocate(world.claim(name), f"n{number}", "gpu-0")
        world.pod(name, name)
    world.wait_for("poison", request("gpu", expression=nested(40)))
    cycle = world.cycle(unanswered, SMALL)
    cycle.once()
    assert ("poison", "CostlySelector") in world.warned
    spent = len(evaluated)
    for _ in range(3):
        world.clock.now += UNUSED_TIMEOUT + 1
        cycle.once()
    assert len(evaluated) == spent


async def test_autoscalers_see_nothing_of_a_claim_whose_selectors_cost_too_much(
    unanswered: Client,
) -> None:
    """Whether some node could serve it would take evaluations that it may not have."""
    evaluated: list[None] = []
    world = cluster(tell=lambda: evaluated.append(None))
    world.wait_for("poison", request("gpu", expression=f"!{nested(40)}"))
    world.pod("poison", "poison", gates=[GATE])
    cycle = world.cycle(unanswered, SMALL)
    cycle.once()
    spent = len(evaluated)
    for _ in range(3):
        world.clock.now += PATIENCE + 1
        cycle.once()
    assert len(evaluated) == spent


async def test_nobody_goes_for_a_claim_whose_selectors_cost_too_much(unanswered: Client) -> None:
    """Whose devices would help it is asked on every node."""
    evaluated: list[None] = []
    world = cluster(tell=lambda: evaluated.append(None))
    settings = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s"}
    world.policy("p", preemption=settings, queue={"mostReserved": 0})
    for number in range(20):
        holds(world, f"victim-{number}", 0, node=f"n{number}")
    world.claim("poison", request("gpu", expression=nested(40)))
    world.pod("poison", "poison", gates=[GATE], spec={"priority": 5})
    evictor = SteeredEvictor(world)
    cycle = world.cycle(unanswered, SMALL, evictor=evictor)
    cycle.once()
    spent = len(evaluated)
    assert 0 < spent < 20
    for _ in range(5):
        world.clock.now += SEARCHED
        cycle.once()
    assert len(evaluated) == spent
    assert evictor.evicted == []


@pytest.mark.parametrize("new", ["n1", "n2"])
async def test_an_attribute_of_a_newer_release_is_an_error_on_its_own_device_alone(
    unanswered: Client, new: str
) -> None:
    """Whichever is evaluated first: others with the same model are given, and the device itself is not, as with kube-scheduler."""
    model = {"model": {"string": "H100-SXM5"}}
    world = ObservedCluster()
    world.device_class("gpu", f'device.attributes["{GPU}"].model.matches("^(A|H)100-SXM.*")')
    for name in ("n1", "n2"):
        world.node(name)
        attributes = model | ({"speed": {"float": "1.5"}} if name == new else {})
        devices = [{"name": "gpu-0", "attributes": attributes}]
        world.slice(name, f"{name}-devices", {"devices": devices}, 1)
    for name in ("first", "second"):
        world.wait_for(name, request("gpu"))

    world.cycle(unanswered).once()

    assert set(world.places().values()) == {"n1", "n2"} - {new}
