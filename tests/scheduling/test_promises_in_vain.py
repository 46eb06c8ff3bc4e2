"""What the plan of the last of the queue gives to one who does not take it is given to others: nobody is refused for its sake."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.scheduling.demands.waiting import IMMEDIATE
from tests.observedcluster import GPU, request
from tests.scheduling.queued import MODEL, fleet
from tests.scheduling.test_suitable_parameters import MPS, card, of_kind


async def test_parameters_that_no_agent_honours_keep_no_device_from_others(unanswered: Client) -> None:
    """The device suits no claim with them, which is found out once it is chosen; the plan gives it to that one."""
    world = card("gpu")
    world.claim("bad", request("any"), config=[of_kind("MigDeviceConfig", GPU, **MPS)])
    world.pod("bad", "bad", gates=[GATE])
    world.claim("good", request("whole"))
    world.pod("good", "good", gates=[GATE])
    cycle = world.cycle(unanswered)
    for _ in range(5):
        cycle.once()
        world.clock.now += 1
    assert world.places() == {"good": "n"}


async def test_a_claim_that_goes_before_its_turn_keeps_no_device_from_others(unanswered: Client) -> None:
    """Nothing that happens later lets in who was refused for it."""
    world = fleet({"n1": ("h100", 2)})
    cycle = world.cycle(unanswered)
    for name, wanted in {
        "first": request("gpu"),
        "goes": request("gpu", expression=f'{MODEL} == "h100"'),
        "waits": request("gpu", expression=f'{MODEL} != "a100"'),
    }.items():
        world.claim(name, wanted, annotations={GATE: IMMEDIATE})
    going = world.snapshot.claim("team", "goes")
    assert going is not None
    for _ in cycle._pass(longest=1e9, evaluates=False):
        if cycle.decider.planner.knows(going.uid) and world.places() == {"first": "n1"}:
            world.gone_claim("goes")
    for _ in range(5):
        cycle.once()
        world.clock.now += 1
    assert world.places() == {"first": "n1", "waits": "n1"}
