"""A reservation is planned in steps, between which others run; what they change counts."""

from apportion.allocator.allocate import decide
from apportion.allocator.nodeanswers import AT_ONCE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.cluster.kinds import NODES as NODE
from apportion.dra.runtime import MAX_RUNTIME
from apportion.scheduling.backfill.heads import heads
from apportion.scheduling.backfill.nodeendings import NodeEndings
from apportion.scheduling.backfill.planning import plan
from apportion.scheduling.backfill.reservations import REPLANNED, Reservations
from apportion.scheduling.deciding.decider import Decider
from apportion.scheduling.deciding.groupdecision import _LIFTED_FOR
from apportion.scheduling.pace import AT_ONCE as PACE
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.reserving import DEVICES, Reserving, on
from tests.steps import Steps

NODES = 2 * AT_ONCE


def _waiting(client: Client) -> Reserving:
    """Return nodes of two devices on each of two roots, used by pods of which those on one root end first and third; one waits for two devices of one root."""
    names = [f"n{number:03}" for number in range(NODES)]
    made = Reserving(client, dict.fromkeys(names, 0))
    for number, name in enumerate(names):
        rows = [
            {"name": f"gpu-{device}", "attributes": {"root": {"string": f"root-{device % 2}"}}}
            for device in range(4)
        ]
        made.world.slice(name, f"{name}-devices", {"devices": rows}, 1)
        for device in range(4):
            _runs(made.world, name, device, f"{60 * (device + 1) + number}m")
    one_root = {"requests": ["gpu"], "matchAttribute": f"{GPU}/root"}
    made.comes("head", wanted=[request("gpu", count=2)])
    claim = made.claim_of("head")
    claim["spec"]["devices"]["constraints"] = [one_root]
    made.world.see(CLAIMS, claim)
    return made


def _runs(world: ObservedCluster, node: str, device: int, runtime: str) -> None:
    name = f"{node}-{device}"
    pod = world.pod(name, name, spec={"nodeName": node})
    running = {"phase": "Running", "startTime": world.time()}
    pod["metadata"]["annotations"] = {MAX_RUNTIME: runtime}
    world.see(PODS, pod | {"status": running})
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    world.allocate(world.claim(name), node, f"gpu-{device}", reservedFor=[consumer])


async def test_a_plan_asks_about_some_nodes_at_once(unanswered: Client) -> None:
    """It asks about each first: after two of its pods there are two devices, but not on one root."""
    made = _waiting(unanswered)
    longest = longest_step(made.cycle, decide)
    assert made.reserved == {"head": (["n000"], 3 * 3600)}
    assert longest <= AT_ONCE + 1


async def test_a_pass_looks_at_some_of_all_claims_at_once(unanswered: Client) -> None:
    """When an operator begins to act, to see which node's devices become free when."""
    made = _waiting(unanswered)
    assert longest_step(made.cycle, NodeEndings._look) <= PACE


async def test_devices_that_come_free_while_it_is_planned_count(unanswered: Client) -> None:
    """On a node that was asked about before."""
    made = _waiting(unanswered)
    planning, given_up = made.cycle._pass(longest=1e9, evaluates=False), False
    more = True
    while more:
        with Steps(only=decide) as asked:
            more = next(planning, planning) is not planning
        if asked.count >= AT_ONCE // 2 and not given_up:
            given_up = True
            for device in (0, 2):
                made.world.gone(PODS, made.world.pod(f"n003-{device}"))
                made.world.gone_claim(f"n003-{device}")
    assert given_up
    assert made.reserved == {"head": (["n003"], 0)}


async def test_a_node_that_changes_while_a_plan_is_prepared_is_looked_at_by_the_next_one(
    unanswered: Client,
) -> None:
    """It counted as looked at: as long as nothing else changed there, the head waited on for a node that becomes free later."""
    made = Reserving(unanswered, {"n1": 2, "n2": 2}, mostReserved=1)
    for node, runtime in (("n1", "100m"), ("n2", "200m")):
        made.starts(f"on-{node}", 2, runtime=runtime, spec={"affinity": on(node)})
    made.comes("head", 2, priority=1)
    for number in range(PACE):
        made.comes(f"p{number}", wanted=[request("gpu", name=f"r{number}", count=2)])
    made.passes(REPLANNED + 1)
    assert made.reserved == {"head": (["n1"], 6000 - REPLANNED - 1)}
    planning, has_changed, more = made.cycle._pass(longest=1e9, evaluates=False), False, True
    while more:
        with Steps(only=heads) as looked:
            more = next(planning, planning) is not planning
        if looked.count and not has_changed:
            has_changed = True
            _, pod = made._objects["on-n2"]
            pod["metadata"]["annotations"] = {MAX_RUNTIME: "50m"}
            made.world.see(PODS, pod)
    assert has_changed
    made.passes(REPLANNED + 1)
    made.passes(0)
    assert [nodes for nodes, _ in made.reserved.values()] == [["n2"]]


async def test_reservations_are_planned_anew_one_by_one(unanswered: Client) -> None:
    """All of them in one step, whenever a slice changed: one of a group of 256 takes 40 ms, and a policy has eight."""
    made = Reserving(unanswered, dict.fromkeys(("n1", "n2", "n3"), 2))
    for number in range(3):
        made.starts(f"old-{number}", 2)
    for number in range(3):
        made.comes(f"head-{number}", 2)
    for _ in range(4):
        made.passes()
    reserved = made.reserved
    made.world.slice("n4", "n4-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    with Steps(only=plan) as planned:
        made.passes()
    assert planned.count == 3
    made.world.slice("n5", "n5-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    assert longest_step(made.cycle, plan) == 1
    assert made.reserved.keys() == reserved.keys() == {"head-0", "head-1", "head-2"}


async def test_the_reservation_of_a_large_group_is_planned_anew_in_steps(unanswered: Client) -> None:
    """Whenever a slice changed 256 pods took 40 to 80 ms in one step."""
    nodes = 2 * AT_ONCE // DEVICES
    made = Reserving(unanswered, {f"n{number}": DEVICES for number in range(nodes)})
    for number in range(nodes):
        made.comes(f"old-{number}", DEVICES, runtime="100m")
    made.passes()
    for number in range(2 * AT_ONCE):
        made.comes(f"p{number}", group=("g", 2 * AT_ONCE))
    made.passes()
    reserved = made.reserved
    made.world.slice("late", "late-devices", {"devices": [{"name": "gpu-0"}]}, 1)
    assert 0 < longest_step(made.cycle, decide) <= AT_ONCE + 1
    assert made.reserved == reserved
    assert [len(found) for found, _ in reserved.values()] == [nodes]


async def test_half_a_minute_later_only_the_reserved_node_is_asked_about(unanswered: Client) -> None:
    """Nothing changed elsewhere. The nodes where a plan let pods end for a moment counted as changed: the next one asked about them again."""
    made = _waiting(unanswered)
    made.passes(REPLANNED + 1)
    reserved = made.reserved
    with Steps(only=decide) as asked:
        made.passes(REPLANNED + 1)
        made.passes()
    assert asked.count <= 2
    assert made.reserved.keys() == reserved.keys()


async def test_whether_there_is_a_place_for_one_of_those_that_wait_is_asked_in_steps(
    unanswered: Client,
) -> None:
    """All places are taken, and thousands wait that all ask for something else: 0.1 s at once for 10,000 of them, in each pass."""
    made = Reserving(unanswered, {"n1": 2}, mostReserved=1)
    made.starts("old")
    made.comes("head", 2, priority=1)
    for _ in range(2):
        made.passes()
    assert made.reserved.keys() == {"head"}
    for number in range(3 * PACE):
        made.comes(f"p{number}", wanted=[request("gpu", name=f"r{number}", count=2)])
    made.passes()
    with Steps(Reservations._has_slot) as asked:
        made.cycle.once()
    assert asked.count >= 3 * PACE
    assert longest_step(made.cycle, Reservations._has_slot) <= PACE
    assert made.reserved.keys() == {"head"}


async def test_a_group_gets_what_is_reserved_for_lower_priorities_in_steps(unanswered: Client) -> None:
    """All of it was decided in one, so that nobody took meanwhile what is reserved: 0.3 s for 1,200 pods. While others run what is found is held, and the rest is reserved."""
    pods = 2 * _LIFTED_FOR
    made = Reserving(unanswered, {"n0": 4, "n1": pods - 2})
    for name in ("n0", "n1"):
        raw = made.world.node(name, cpu="64")
        raw["status"]["allocatable"]["pods"] = "500"
        made.world.see(NODE, raw)
    made.starts("old", spec={"affinity": on("n0")})
    made.comes("head", 4, spec={"affinity": on("n0")})
    made.passes()
    assert made.reserved.keys() == {"head"}
    for number in range(pods):
        made.comes(f"p{number}", priority=1, group=("g", pods), cpu="10m")
    assert longest_step(made.cycle, Decider.grant) <= _LIFTED_FOR
    assert sum(name.startswith("p") for name in made.world.places()) == pods
