"""A pod that comes instead of an evicted one and names the same claim, as a Deployment's does at once: it does not start with what is being taken back."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.cycle import Cycle
from tests.observedcluster import ObservedCluster
from tests.scheduling.evicting import SteeredEvictor, holds, trial, waits
from tests.scheduling.queued import fleet
from tests.scheduling.test_refused_gates import Refusing, passes


def preempting(gpus: int = 1, **others: int) -> tuple[ObservedCluster, Cycle]:
    """Return GPUs that pods have by claims, and a pod of higher priority that waits for all of them; what is written is carried out. `others`: nodes with free GPUs."""
    world = fleet({name: ("h100", count) for name, count in {"n1": gpus, **others}.items()})
    settings = {"mode": "LowerPriority", "after": "0s", "minRuntime": "0s", "cooldown": "10m"}
    world.policy("p", preemption=settings, queue={"mostReserved": 0})
    server, evictor = Refusing(world), SteeredEvictor(world)
    server.refuses = False
    cycle = world.cycle(server, evictor=evictor)
    for number in range(gpus):
        holds(world, f"low-{number}" if number else "low", number)
    waits(world, "high", gpus, priority=5)
    return world, cycle


def gates(world: ObservedCluster, name: str) -> list[str]:
    return [each["name"] for each in world.seen[PODS, "team", name]["spec"]["schedulingGates"]]


async def test_a_pod_that_comes_instead_does_not_start_with_what_is_being_taken_back() -> None:
    """The claim kept its device, for ever by one pod after another: others went in vain, and their namespace lost the right to evict."""
    world, cycle = preempting()
    await passes(world, cycle, 4.0)
    assert world.seen[PODS, "team", "low"]["metadata"].get("deletionTimestamp")
    world.pod("instead", "low", gates=(GATE,))
    await passes(world, cycle, 4.0)
    assert gates(world, "instead") == [GATE]
    world.gone(PODS, world.seen[PODS, "team", "low"])
    await passes(world, cycle, 4.0)
    raw = world.seen[CLAIMS, "team", "low"]
    world.see(CLAIMS, raw | {"status": {}})
    await passes(world, cycle, 4.0)
    assert world.places() == {"high": "n1"}
    assert gates(world, "high") == []
    assert gates(world, "instead") == [GATE]


async def test_it_starts_with_what_nobody_takes_back_any_more() -> None:
    """Who waits is gone: the claim keeps its device, and its next pod starts while the former one ends."""
    world, cycle = preempting()
    await passes(world, cycle, 4.0)
    world.pod("instead", "low", gates=(GATE,))
    for kind in (PODS, CLAIMS):
        world.gone(kind, world.seen[kind, "team", "high"])
    await passes(world, cycle, 4.0)
    assert gates(world, "instead") == []


async def test_it_starts_with_other_devices_while_others_end_still() -> None:
    """Its claim was given a GPU of another node, and another evicted pod takes its time."""
    world, cycle = preempting(2, n2=1)
    await passes(world, cycle, 4.0)
    world.pod("instead", "low", gates=(GATE,))
    world.gone(PODS, world.seen[PODS, "team", "low"])
    world.see(CLAIMS, world.seen[CLAIMS, "team", "low"] | {"status": {}})
    await passes(world, cycle, 8.0)
    assert world.places() == {"low": "n2", "low-1": "n1"}
    assert gates(world, "instead") == []


async def test_one_that_starts_all_the_same_goes_too(unanswered: Client) -> None:
    """Its gate had gone before, and the evicted pod kept it off the node: a tenant could keep its devices by such pods, and take the right to evict from those that wait."""
    made = trial(unanswered, 1, cooldown="10m")
    world = made.world
    holds(world, "low", 0)
    kept_off = world.pod("beside", "low", spec={"priority": 0})
    waits(world, "high", 1, priority=5)
    await made.passes()
    assert made.evicted == ["low"]
    world.gone(PODS, world.seen[PODS, "team", "low"])
    user = {"resource": "pods", "name": "beside", "uid": kept_off["metadata"]["uid"]}
    world.pod("beside", "low", spec={"priority": 0, "nodeName": "n1"})
    raw = world.seen[CLAIMS, "team", "low"]
    world.see(CLAIMS, raw | {"status": raw["status"] | {"reservedFor": [user]}})
    await made.passes(80)
    assert made.evicted == ["low", "beside"]
    assert ("high", "PreemptionInVain") not in world.warned
    world.gone(PODS, world.seen[PODS, "team", "beside"])
    world.gone(CLAIMS, world.seen[CLAIMS, "team", "low"])
    await made.passes()
    assert world.places() == {"high": "n1"}
