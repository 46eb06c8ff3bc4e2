"""kube-scheduler keeps room of a node for the pods that it has nominated for it: those to which a pod would have to yield there count."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import PODS
from apportion.dra.pod import Pod
from apportion.scheduling.room.hostcapacity import HostCapacity
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.evicting import holds, trial
from tests.scheduling.hosts import node, pod
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet


def nominated(world: ObservedCluster, name: str, priority: int, *, to: str = "n1", **spec: object) -> Json:
    """Show a pod without claims of 60 cpus that waits for its room."""
    wanted = [{"name": "c", "resources": {"requests": {"cpu": "60"}}}]
    raw = {
        "metadata": {"name": name, "namespace": "others"},
        "spec": {"containers": wanted, "priority": priority, **spec},
        "status": {"nominatedNodeName": to} if to else {},
    }
    return world.see(PODS, raw)


def asking(priority: int = 5) -> Json:
    """Return a pod of eight cpus."""
    return {
        "priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "8"}}}],
    }


def hosts(**cpu: str) -> ObservedCluster:
    """Return nodes with two devices each."""
    world = fleet(dict.fromkeys(cpu, ("h100", 2)))
    for name, amount in cpu.items():
        world.node(name, cpu=amount)
    return world


@pytest.mark.parametrize(("priority", "place"), [(4, "n1"), (5, None), (6, None)])
async def test_a_pod_yields_to_nominated_ones_of_its_priority_or_a_higher_one(
    unanswered: Client, priority: int, place: str | None
) -> None:
    """Room that is kept for those of a lower one it may take (`addGENominatedPods`)."""
    world = hosts(n1="64")
    nominated(world, "first", priority)
    world.wait_for("c", request("gpu"), asking())
    world.cycle(unanswered).once()
    assert world.places().get("c") == place


async def test_a_refusal_says_that_others_are_nominated(unanswered: Client) -> None:
    """Beside bound pods the node has plenty."""
    world = hosts(n1="64", n2="4")
    nominated(world, "first", 9)
    world.wait_for("c", request("gpu"), asking())
    world.cycle(unanswered).once()
    [text] = [text for name, reason, text in world.messages if (name, reason) == ("c", "NotAllocated")]
    assert "1 too little cpu beside pods nominated for it" in text
    assert "1 too little cpu;" in text or text.endswith("1 too little cpu")


async def test_another_node_is_chosen_at_once(unanswered: Client) -> None:
    """No devices are held on the one that kube-scheduler refuses."""
    for name, other in (("n1", "n2"), ("n2", "n1")):
        world = hosts(n1="64", n2="64")
        nominated(world, "first", 9, to=name)
        world.wait_for("c", request("gpu"), asking())
        world.cycle(unanswered).once()
        assert world.places()["c"] == other


@pytest.mark.parametrize("what", ["gone", "elsewhere", "withdrawn", "finished", "bound elsewhere"])
async def test_who_was_refused_for_it_is_served_when_the_room_is_free(unanswered: Client, what: str) -> None:
    """However it becomes free."""
    world = hosts(n1="64", n2="4")
    first = nominated(world, "first", 9)
    world.wait_for("c", request("gpu"), asking())
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places().get("c") is None
    match what:
        case "gone":
            world.gone(PODS, first)
        case "elsewhere":
            nominated(world, "first", 9, to="n2")
        case "withdrawn":
            nominated(world, "first", 9, to="")
        case "finished":
            world.see(PODS, first | {"status": {"phase": "Failed", "nominatedNodeName": "n1"}})
        case _:
            nominated(world, "first", 9, nodeName="n2")
    cycle.once()
    assert world.places().get("c") == "n1"


async def test_a_pod_that_is_bound_to_its_node_counts_once(unanswered: Client) -> None:
    """kube-scheduler takes the nomination off later."""
    world = hosts(n1="70")
    nominated(world, "first", 9, nodeName="n1")
    world.wait_for("c", request("gpu"), asking())
    world.cycle(unanswered).once()
    assert world.places().get("c") == "n1"


async def test_nominations_of_schedulers_that_do_not_bind_our_pods_count_for_nobody(
    unanswered: Client,
) -> None:
    """kube-scheduler does not know them."""
    world = hosts(n1="64")
    nominated(world, "first", 9, schedulerName="another")
    world.wait_for("c", request("gpu"), asking())
    world.cycle(unanswered).once()
    assert world.places().get("c") == "n1"


async def test_pods_behind_gates_of_others_keep_their_room(unanswered: Client) -> None:
    """kube-scheduler counts them, too."""
    world = hosts(n1="64")
    nominated(world, "first", 9, schedulingGates=[{"name": "example.com/later"}])
    world.wait_for("c", request("gpu"), asking())
    world.cycle(unanswered).once()
    assert world.places().get("c") is None


async def test_a_pod_whose_claims_we_serve_counts_where_its_devices_are(unanswered: Client) -> None:
    """Once, and not beside itself when it is asked about again."""
    world = hosts(n1="64", n2="64")
    world.claim("c", request("gpu"))
    wanted = [{"name": "c", "resources": {"requests": {"cpu": "60"}}}]
    raw = world.pod("c", "c", spec={"containers": wanted})
    world.see(PODS, raw | {"status": {"nominatedNodeName": "n1"}})
    world.node("n2", cpu="4")
    world.cycle(unanswered).once()
    assert world.places() == {"c": "n1"}


def test_our_own_nomination_is_no_change_of_a_pod_behind_our_gate() -> None:
    """It comes with each pod that is served."""
    world = ObservedCluster()
    raw = world.pod("p", "c", gates=[GATE])
    before = world.pod_value(raw)
    world.see(PODS, raw | {"status": {"nominatedNodeName": "n1"}})
    assert world.pod_value(raw) is before
    raw["spec"]["schedulingGates"] = []
    woken = world.wakes
    world.see(PODS, raw | {"status": {"nominatedNodeName": "n1"}})
    assert world.pod_value(raw).nominated == "n1"
    assert world.wakes == woken


def test_pods_that_need_their_node_together_yield_to_what_the_least_of_them_yields_to() -> None:
    """It is bound last, or beside the others that are nominated by then."""
    capacity = HostCapacity([node("n")])
    low, high = pod(), pod(priority=9)
    for _ in capacity.nominated.put(pod(priority=5), "first", "n"):
        pass
    assert capacity.fitting((high,))[0] == {"n"}
    assert capacity.fitting((low,))[0] == {"n"}
    assert capacity.fitting((high, low))[0] == frozenset()
    assert capacity.fitting((high, pod(priority=8)))[0] == {"n"}
    assert capacity.left("n", ["cpu"], (low,)) == {"cpu": 1000}
    assert capacity.left("n", ["cpu"], (high,)) == {"cpu": 2000}


async def test_pods_of_other_priorities_are_compared_with_the_nodes_of_nominated_ones(
    unanswered: Client,
) -> None:
    """Though they are alike; with no others."""
    names = [f"n{number}" for number in range(200)]
    world = fleet(dict.fromkeys(names, ("h100", 2)))
    for name in names:
        world.node(name, cpu="64")
    cycle = served_before(world, unanswered)
    nominated(world, "first", 5, to="n3")
    for name, priority in (("low", 1), ("high", 9), ("lower", 0)):
        world.wait_for(name, request("gpu"), asking(priority))
        compared = longest_step(cycle, only=HostCapacity._against)
        assert compared < 10 or name == "low"
        assert name in world.places()
    capacity = HostCapacity([node("n")])
    for _ in capacity.nominated.put(pod(priority=5), "first", "n"):
        pass
    small = {"cpu": "1500m"}
    asked = [{"name": "c", "resources": {"requests": small}}]
    found = [
        bool(capacity.fitting((pod(containers=asked, priority=priority),))[0]) for priority in (9, 1, 6, 5, 9)
    ]
    assert found == [True, False, True, False, True]


async def test_nominations_cost_a_pass_no_look_at_other_nodes_or_pods(unanswered: Client) -> None:
    """Only the node is compared with who waits."""
    names = [f"n{number}" for number in range(200)]
    world = fleet(dict.fromkeys(names, ("h100", 2)))
    for name in names:
        world.node(name, cpu="64")
        nominated(world, f"to-{name}", 9, to=name)
    nominated(world, "to-n1", 9, to="n1")
    cycle = served_before(world, unanswered)
    world.wait_for("c", request("gpu"), asking(1))
    cycle.once()
    nominated(world, "to-n7", 9, to="")
    assert longest_step(cycle, only=HostCapacity._against) < 10
    assert world.places().get("c") == "n7"


def test_pods_are_read_with_the_node_for_which_they_are_nominated() -> None:
    """Empty is none."""
    raw = {"metadata": {"name": "p"}, "spec": {}, "status": {"nominatedNodeName": ""}}
    assert Pod.from_json(raw).nominated is None


@pytest.mark.parametrize(("priority", "evicted"), [(5, []), (4, ["low"])])
async def test_nobody_is_evicted_where_nominated_pods_have_the_room(
    unanswered: Client, priority: int, evicted: list[str]
) -> None:
    """The room of those that would go is not enough beside them."""
    made = trial(unanswered, 1)
    made.world.node("n1", cpu="64")
    holds(made.world, "low", 0)
    nominated(made.world, "first", priority)
    made.world.claim("high", request("gpu"))
    made.world.pod("high", "high", gates=(GATE,), spec=asking())
    await made.passes(3)
    assert made.evicted == evicted
