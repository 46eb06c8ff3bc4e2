"""Autoscalers see the pods that only a new node would serve, and those alone."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.api.layout import layout_key
from apportion.cluster.client import Client
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.scheduling.autoscaling.emptynodes import PUBLISHING
from tests.observedcluster import GPU, ObservedCluster, request
from tests.scheduling.lookingfornodes import H100, H200, HALF, hold, looking, said, seen, shown, waits
from tests.scheduling.queued import MODEL, fleet
from tests.steps import steps


def test_autoscalers_see_a_pod_that_no_node_could_serve_even_empty() -> None:
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


def test_a_pod_that_waits_for_others_devices_is_not_shown() -> None:
    """The cluster is full: an autoscaler would help, but only where a policy says so."""
    for mode, expected in ((None, set()), ("WhenFull", {"p"}), ("Never", set())):
        world = fleet({"n1": ("h100", 1)})
        if mode is not None:
            world.policy(queue={"autoscale": mode})
        hold(world, "other", "n1", "gpu-0")
        waits(world, "p", request("gpu"))
        assert shown(world) == expected


def test_never_means_that_a_pod_is_not_shown_whatever_it_asks_for() -> None:
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


def test_while_an_agent_publishes_its_devices_anew_nobody_knows_what_its_node_has() -> None:
    """One of two slices is there, for a moment or, when the agent does not come to an end, for longer."""
    for completed in (True, False):
        world = fleet({"n1": ("h100", 1)})
        waits(world, "p", request("gpu", count=2))
        waits(world, "model", request("gpu", expression=H200))
        devices = [
            {"name": f"gpu-{number}", "attributes": {"model": {"string": "h100"}}} for number in (0, 1)
        ]
        world.slice("n1", "n1-devices", {"devices": devices[:1]}, 2)
        look = looking(world)
        assert look() == set()
        world.clock.now += PATIENCE
        assert look() == set()
        if completed:
            world.slice("n1", "n1-further", {"devices": devices[1:]}, 2)
            world.clock.now += PATIENCE
            assert look() == {"model"}
        world.clock.now += PUBLISHING
        assert look() == ({"model"} if completed else {"p", "model"})


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
    for key, expected in (("preempt:demand", set()), (layout_key("l", "n1"), {"p"})):
        world = fleet({"n1": ("h100", 1)})
        world.snapshot.state.hold(key, (DeviceResult("r", DeviceId(GPU, "n1", "gpu-0")),))
        waits(world, "p", request("gpu"))
        assert shown(world) == expected


def test_a_claim_on_a_device_that_was_withdrawn_is_never_released() -> None:
    """What it takes could not be known again; the pod is not shown, which is the safe side."""
    world = ObservedCluster()
    world.device_class("gpu")
    world.node("n1")
    world.card("n1")
    hold(world, "gone", "n1", "gpu-0-mig-1g10gb-19-0", "no-such-device")
    waits(world, "p", request("gpu", expression=H200))
    assert shown(world) == set()


def test_a_demand_that_a_quota_keeps_waiting_is_not_shown() -> None:
    """No node would help it; others of its shape are."""
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


@pytest.mark.slow
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


async def test_when_a_node_comes_the_pod_is_served(unanswered: Client) -> None:
    """Its Event says what it waited for."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    assert ("p", "ShownToAutoscalers") in world.warned
    seen(world, "p")
    world.node("n2", cpu="64")
    devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h200"}}}]
    world.slice("n2", "n2-devices", {"devices": devices}, 1)
    cycle.once()
    assert world.places() == {"p": "n2"}


def test_what_is_not_seen_yet_is_repeated_and_later_pods_of_the_shape_are_shown_at_once() -> None:
    """A write may fail; nobody asks the allocator again for what was answered."""
    world = fleet({"n1": ("h100", 1)})
    waits(world, "p", request("gpu", expression=H200))
    say = said(world)
    assert say() == {}
    world.clock.now += PATIENCE
    assert say() == {"p": True}
    assert say() == {}
    world.clock.now += PATIENCE
    assert say() == {"p": True}
    waits(world, "later", request("gpu", expression=H200))
    assert say() == {}
    seen(world, "p")
    world.clock.now += PATIENCE
    assert say() == {"later": True}
    seen(world, "later")
    for _ in range(3):
        world.clock.now += PATIENCE
        assert say() == {}


def test_a_pod_is_hidden_when_a_node_came_that_others_took() -> None:
    """An autoscaler would go on buying nodes for it; also by an operator that did not show it."""
    for later in (False, True):
        world = fleet({"n1": ("h100", 1)})
        waits(world, "p", request("gpu", expression=H200))
        say = said(world)
        say()
        world.clock.now += PATIENCE
        assert say() == {"p": True}
        seen(world, "p")
        say = said(world) if later else say
        say()
        world.clock.now += PATIENCE
        assert say() == {}
        world.node("n2", cpu="64")
        devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h200"}}}]
        world.slice("n2", "n2-devices", {"devices": devices}, 1)
        hold(world, "other", "n2", "gpu-0")
        world.clock.now += PATIENCE
        assert say() == {"p": False}
        waits(world, "p", request("gpu", expression=H200))
        world.clock.now += PATIENCE
        assert say() == {}


@pytest.mark.slow
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
def test_exactly_the_pods_are_shown_that_no_node_could_serve_empty(
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
