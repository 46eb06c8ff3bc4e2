"""Pods that only a new node would serve lose their gate, so that autoscalers see them."""

from collections.abc import Callable, Container
from contextlib import nullcontext

from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.scheduling.autoscaling import PATIENCE, Autoscaling
from apportion.scheduling.waitingqueue import WaitingQueue
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.podgroups import member
from tests.scheduling.queued import MODEL, fleet
from tests.steps import steps

HALF = f'device.attributes["{GPU}"].?profile.orValue("") == "3g.40gb"'
H100, H200 = f'{MODEL} == "h100"', f'{MODEL} == "h200"'


def looking(world: ObservedCluster, over: Container[str] = ()) -> Callable[[], set[str]]:
    """Return what looks at the queue and names the pods that lose their gate; `over`: demands over their quota."""
    queue = WaitingQueue(world.snapshot)
    autoscaling = Autoscaling(world.snapshot, world.clock, over=over, lifted=nullcontext)

    def look() -> set[str]:
        queue.demands()
        autoscaling.follow(*queue.news())
        found = autoscaling.look()
        while True:
            try:
                next(found)
            except StopIteration as end:
                return {pod.name for pod, _ in end.value.values()}

    return look


def shown(world: ObservedCluster, *, after: float = PATIENCE, over: Container[str] = ()) -> set[str]:
    """Return the names of the pods that lose their gate once they have waited so long; `over`: demands over their quota."""
    look = looking(world, over)
    assert look() == set()
    world.clock.now += after
    return look()


def waits(world: ObservedCluster, name: str, wanted: Json, **spec: object) -> None:
    """Let a gated pod wait."""
    world.claim(name, wanted)
    world.pod(name, name, gates=[GATE], spec=spec)


def hold(world: ObservedCluster, name: str, node: str, *devices: str) -> None:
    world.allocate(world.claim(name), node, *devices)


def test_a_pod_that_no_node_could_serve_even_empty_loses_its_gate() -> None:
    """A model that is not there, more devices than any node has, more cpu than any node has, labels that none has."""
    world = fleet({"n1": ("h100", 2), "n2": ("h100", 2)})
    hold(world, "other", "n1", "gpu-0", "gpu-1")
    waits(world, "fits", request("gpu", expression=H100, count=2))
    waits(world, "model", request("gpu", expression=H200))
    waits(world, "count", request("gpu", count=3))
    waits(world, "label", request("gpu"), nodeSelector={"zone": "b"})
    large = {"name": "main", "resources": {"requests": {"cpu": "65"}}}
    waits(world, "cpu", request("gpu"), containers=[large])
    assert shown(world) == {"model", "count", "label", "cpu"}


def test_a_pod_that_waits_for_others_devices_keeps_its_gate() -> None:
    """The cluster is full: an autoscaler would help, but only where a policy says so."""
    for mode, expected in ((None, set()), ("WhenFull", {"p"}), ("Never", set())):
        world = fleet({"n1": ("h100", 1)})
        if mode is not None:
            world.policy(queue={"autoscale": mode})
        hold(world, "other", "n1", "gpu-0")
        waits(world, "p", request("gpu"))
        assert shown(world) == expected


def test_never_means_that_a_pod_keeps_its_gate_whatever_it_asks_for() -> None:
    """For clusters whose nodes do not change."""
    world = fleet({"n1": ("h100", 1)})
    world.policy(queue={"autoscale": "Never"})
    waits(world, "p", request("gpu", expression=H200))
    assert shown(world) == set()


def test_nobody_asks_before_a_demand_has_waited() -> None:
    """An agent that starts anew has no slices for a moment."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    assert shown(world, after=PATIENCE - 0.1) == set()


def test_what_is_not_only_ours_to_hold_back_is_left_alone() -> None:
    """A pod behind another gate, one without ours, a claim that an allocated one ties to a node, a claim without a pod."""
    world = fleet({"n1": ("h100", 1)})
    impossible = request("gpu", expression=H200)
    world.claim("kueue", impossible)
    world.pod("kueue", "kueue", gates=[GATE, "kueue.x-k8s.io/admission"])
    world.wait_for("ungated", impossible)
    world.claim("immediate", impossible, annotations={GATE: "Immediate"})
    hold(world, "there", "n1", "gpu-0")
    world.claim("tied", impossible)
    world.pod("tied", "there", "tied", gates=[GATE])
    assert shown(world) == set()


def test_of_a_group_all_waiting_pods_lose_the_gate_with_the_one_that_fits_nowhere() -> None:
    """None of them starts without it."""
    world = fleet({"n1": ("h100", 4)})
    for name, expression in (("a", H100), ("b", H200)):
        world.claim(name, request("gpu", expression=expression))
        raw = world.pod(name, name, gates=[GATE])
        raw["metadata"] |= {
            "labels": {"apportion.dev/pod-group": "g"},
            "annotations": {"apportion.dev/pod-group-min-count": "2"},
        }
        world.see(PODS, raw)
    waits(world, "alone", request("gpu"))
    assert shown(world) == {"a", "b"}


def group(world: ObservedCluster, least: int, *requests: Json) -> None:
    """Let a gated pod of one group wait for each of these."""
    for number, wanted in enumerate(requests):
        world.claim(f"g{number}", wanted)
        member(world, f"g{number}", f"g{number}", least=str(least))


def test_a_group_for_which_all_nodes_are_too_few_loses_its_gates_together() -> None:
    """Each of its pods would fit somewhere. A node more, and it keeps them, as does the part that may wait for more."""
    for nodes, least, expected in ((2, 3, {"g0", "g1", "g2"}), (3, 3, set()), (2, 2, set())):
        world = fleet({f"n{number}": ("h100", 2) for number in range(nodes)})
        hold(world, "other", "n0", "gpu-0", "gpu-1")
        group(world, least, *[request("gpu", count=2)] * 3)
        assert shown(world) == expected


def test_a_group_that_does_not_wait_for_a_node_keeps_its_gates() -> None:
    """It is incomplete, a quota keeps it waiting, a policy says so, or what it wants is counted otherwise than by devices."""
    few = [request("gpu", count=2)] * 2
    world = fleet({"n1": ("h100", 2)})
    group(world, 3, *few)
    assert shown(world) == set()
    world = fleet({"n1": ("h100", 2)})
    group(world, 2, *few)
    over = world.snapshot.claim("team", "g1")
    assert over is not None
    assert shown(world, over={over.uid}) == set()
    world = fleet({"n1": ("h100", 2)})
    world.policy(queue={"autoscale": "Never"})
    group(world, 2, *few)
    assert shown(world) == set()


def test_a_group_whose_quota_became_too_small_keeps_its_gates_as_long_as_it_is() -> None:
    """Nodes went, and nodes are not all that it lacks."""
    world = fleet({"n1": ("h100", 2), "n2": ("h100", 2)})
    group(world, 2, *[request("gpu", count=2)] * 2)
    over: set[str] = set()
    look = looking(world, over)
    assert look() == set()
    world.clock.now += PATIENCE
    assert look() == set()
    world.gone(NODES, world.node("n2"))
    over.update(claim.uid for claim in world.snapshot.claims.values())
    for _ in range(2):
        world.clock.now += PATIENCE
        assert look() == set()
    over.clear()
    world.clock.now += PATIENCE
    assert look() == {"g0", "g1"}


def test_room_of_nodes_counts_for_a_group_too() -> None:
    """There are devices enough, and cpu for one pod."""
    for cpu, expected in (("40", {"g0", "g1"}), ("32", set())):
        world = fleet({"n1": ("h100", 2)})
        group(world, 2, *[request("gpu")] * 2)
        for pod in tuple(world.snapshot.pods.values()):
            large = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
            raw = member(world, pod.name, pod.name)
            raw["spec"]["containers"] = [large]
            world.see(PODS, raw)
        assert shown(world) == expected


async def test_a_group_without_gates_is_served_together_when_nodes_come(unanswered: Client) -> None:
    """Its Events say how many of it the nodes could take."""
    world = fleet({"n1": ("h100", 2)})
    group(world, 2, *[request("gpu", count=2)] * 2)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    [text] = {text for _, reason, text in world.messages if reason == "ShownToAutoscalers"}
    assert "room for 1 of the 2 pods that group team/g needs together" in text
    for name in ("g0", "g1"):
        member(world, name, name, gates=())
    world.node("n2", cpu="64")
    devices = [{"name": f"gpu-{number}", "attributes": {"model": {"string": "h100"}}} for number in range(2)]
    world.slice("n2", "n2-devices", {"devices": devices}, 1)
    cycle.once()
    assert set(world.places().values()) == {"n1", "n2"}


def test_a_sick_device_serves_nobody_and_a_held_one_will() -> None:
    """A taint of health is asked for a new node; a device that is still prepared for another becomes free."""
    for key, expected in (("apportion.dev/unhealthy", {"p"}), ("apportion.dev/held", set())):
        world = ObservedCluster()
        world.device_class("gpu")
        world.node("n1")
        taint = {"key": key, "effect": "NoSchedule"}
        world.slice("n1", "s", {"devices": [{"name": "gpu-0", "taints": [taint]}]}, 1)
        waits(world, "p", request("gpu"))
        assert shown(world) == expected


def test_what_claims_hold_is_held_afterwards() -> None:
    """The question changes nothing: the next claim gets what was free before."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.card("n1")
    hold(world, "one", "n1", "gpu-0-mig-3g40gb-9-0")
    waits(world, "half", request("gpu", expression=HALF, count=2))
    waits(world, "none", request("gpu", expression=HALF, count=3))
    before = world.snapshot.state.view("n1").holdings
    assert shown(world) == {"none"}
    assert world.snapshot.state.view("n1").holdings == before


def test_what_is_held_for_a_demand_that_preempts_is_not_taken_for_used_up() -> None:
    """The devices are there; who waits behind it waits for them. What a layout reserves is not there for claims."""
    for key, expected in (("preempt:demand", set()), ("layout:l", {"p"})):
        world = fleet({"n1": ("h100", 1)})
        world.snapshot.state.hold(key, (DeviceResult("r", DeviceId(GPU, "n1", "gpu-0")),))
        waits(world, "p", request("gpu"))
        assert shown(world) == expected


def test_a_claim_on_a_device_that_was_withdrawn_is_never_released() -> None:
    """What it takes could not be known again; the pod keeps its gate, which is the safe side."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.card("n1")
    hold(world, "gone", "n1", "gpu-0-mig-1g10gb-19-0", "no-such-device")
    waits(world, "p", request("gpu", expression=H200))
    assert shown(world) == set()


def test_a_demand_that_a_quota_keeps_waiting_keeps_its_gate() -> None:
    """No node would help it; others of its shape lose theirs."""
    for mode in ("WhenNothingFits", "WhenFull"):
        world = fleet({"n1": ("h100", 1)})
        world.policy(queue={"autoscale": mode})
        for name in ("over", "within"):
            waits(world, name, request("gpu", expression=H200))
        over = world.snapshot.claim("team", "over")
        assert over is not None
        assert shown(world, over={over.uid}) == {"within"}


async def test_what_is_reserved_for_the_first_of_the_queue_counts_as_free(unanswered: Client) -> None:
    """The one behind waits for it; a new node is not what it lacks."""
    world = fleet({"n1": ("h100", 1)})
    hold(world, "other", "n1", "gpu-0")
    world.policy(queue={"reserveAfter": "0s"})
    for name in ("first", "second"):
        waits(world, name, request("gpu"))
    cycle = world.cycle(unanswered)
    for _ in range(4):
        cycle.once()
        world.clock.now += PATIENCE
    assert "ShownToAutoscalers" not in [reason for _, reason in world.warned]


def test_a_claim_whose_selector_fails_is_no_business_of_autoscalers() -> None:
    """Its Event is another one: no node would help."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=f'device.attributes["{GPU}"].nothing == "x"'))
    assert shown(world) == set()


async def test_a_pass_costs_nothing_for_demands_that_were_looked_at(unanswered: Client) -> None:
    """A full cluster's queue is asked about once for each shape, not in each pass: as where nobody ever asks."""
    counts = []
    for mode in ("WhenNothingFits", "Never"):
        world = fleet({"n1": ("h100", 1)})
        world.policy(queue={"autoscale": mode})
        hold(world, "other", "n1", "gpu-0")
        for each in range(40):
            waits(world, f"p{each}", request("gpu"))
        cycle = world.cycle(unanswered)
        for _ in range(4):
            cycle.once()
            world.clock.now += PATIENCE
        cycle.once()
        counts.append(steps(cycle.once))
    assert counts[0] == counts[1]


async def test_when_a_node_comes_the_pod_is_served_though_it_has_no_gate(unanswered: Client) -> None:
    """Its Event says what happened to the gate; it is never looked at again."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    assert ("p", "ShownToAutoscalers") in world.warned
    world.pod("p", "p")
    world.node("n2", cpu="64")
    devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h200"}}}]
    world.slice("n2", "n2-devices", {"devices": devices}, 1)
    cycle.once()
    assert world.places() == {"p": "n2"}


@settings(max_examples=60)
@given(
    fleet_of=st.lists(
        st.tuples(st.sampled_from(["h100", "h200"]), st.integers(1, 3)), min_size=1, max_size=4
    ),
    held=st.integers(0, 6),
    model=st.sampled_from(["h100", "h200", "b200"]),
    count=st.integers(1, 4),
    cpu=st.integers(1, 90),
)
def test_exactly_the_pods_lose_the_gate_that_no_node_could_serve_empty(
    fleet_of: list[tuple[str, int]], held: int, model: str, count: int, cpu: int
) -> None:
    """By brute force: some node has enough devices of the model, and enough cpu."""
    nodes = {f"n{number}": each for number, each in enumerate(fleet_of)}
    world = fleet(nodes)
    every = [(node, f"gpu-{index}") for node, (_, size) in nodes.items() for index in range(size)]
    for number, (node, device) in enumerate(every[:held]):
        hold(world, f"held-{number}", node, device)
    container = {"name": "main", "resources": {"requests": {"cpu": str(cpu)}}}
    waits(world, "p", request("gpu", expression=f'{MODEL} == "{model}"', count=count), containers=[container])
    could = cpu <= 64 and any(kind == model and size >= count for kind, size in fleet_of)
    assert shown(world) == (set() if could else {"p"})


@settings(max_examples=60)
@given(
    nodes=st.lists(st.tuples(st.sampled_from(["h100", "h200"]), st.integers(1, 4)), min_size=1, max_size=4),
    wanted=st.lists(st.tuples(st.sampled_from(["h100", "h200"]), st.integers(1, 3)), min_size=1, max_size=5),
    least=st.integers(1, 5),
)
def test_a_group_that_empty_nodes_would_serve_keeps_its_gates(
    nodes: list[tuple[str, int]], wanted: list[tuple[str, int]], least: int
) -> None:
    """By brute force over the places of its pods; pods of one kind lose them as soon as the nodes are too few."""
    world = fleet({f"n{number}": each for number, each in enumerate(nodes)})
    least = min(least, len(wanted))
    rows = [request("gpu", expression=f'{MODEL} == "{model}"', count=count) for model, count in wanted]
    group(world, least, *rows)
    most = _most(wanted, list(nodes))
    everywhere = all(any(kind == model and size >= count for kind, size in nodes) for model, count in wanted)
    found = shown(world)
    if most >= least and everywhere:
        assert found == set()
    elif len(set(wanted)) == 1:
        assert found == {f"g{number}" for number in range(len(wanted))}


def _most(wanted: list[tuple[str, int]], nodes: list[tuple[str, int]]) -> int:
    """Return how many of these pods the nodes could have at once."""
    if not wanted:
        return 0
    (model, count), *others = wanted
    found = _most(others, nodes)
    for number, (kind, left) in enumerate(nodes):
        if kind == model and left >= count:
            rest = [*nodes[:number], (kind, left - count), *nodes[number + 1 :]]
            found = max(found, 1 + _most(others, rest))
    return found
