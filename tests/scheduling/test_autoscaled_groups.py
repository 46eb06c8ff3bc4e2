"""Groups for which the nodes of the cluster are too few are shown together, so that autoscalers see all of their pods."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
from apportion.dra.pod import UNSCHEDULABLE
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.lookingfornodes import H100, H200, hold, looking, said, shown, waits
from tests.scheduling.podgroups import member
from tests.scheduling.queued import MODEL, fleet


def test_of_a_group_all_waiting_pods_are_shown_with_the_one_that_fits_nowhere() -> None:
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


def test_a_group_for_which_all_nodes_are_too_few_is_shown_together() -> None:
    """Each of its pods would fit somewhere. A node more, and it is not, nor is the part that may wait for more."""
    for nodes, least, expected in ((2, 3, {"g0", "g1", "g2"}), (3, 3, set()), (2, 2, set())):
        world = fleet({f"n{number}": ("h100", 2) for number in range(nodes)})
        hold(world, "other", "n0", "gpu-0", "gpu-1")
        group(world, least, *[request("gpu", count=2)] * 3)
        assert shown(world) == expected


def test_a_group_is_hidden_together_when_the_nodes_would_be_enough() -> None:
    """They are full then: its pods wait for others, as long as none of them fits nowhere."""
    for fits, hidden in ((True, {"g0": False, "g1": False}), (False, {})):
        world = fleet({"n1": ("h100", 1)})
        group(world, 2, request("gpu"), request("gpu") if fits else request("gpu", expression=H200))
        say = said(world)
        say()
        world.clock.now += PATIENCE
        assert say() == {"g0": True, "g1": True}
        for number in range(2):
            seen_member(world, f"g{number}")
        say()
        world.clock.now += PATIENCE
        assert say() == {}
        world.node("n2", cpu="64")
        devices = [{"name": "gpu-0", "attributes": {"model": {"string": "h100"}}}]
        world.slice("n2", "n2-devices", {"devices": devices}, 1)
        hold(world, "other", "n2", "gpu-0")
        world.clock.now += PATIENCE
        assert say() == hidden


def seen_member(world: ObservedCluster, name: str, least: int = 2) -> None:
    """Let condition PodScheduled of a member say Unschedulable."""
    raw = member(world, name, name, least=str(least))
    world.see(PODS, raw | {"status": {"conditions": [{"type": "PodScheduled", "reason": UNSCHEDULABLE}]}})


def test_a_group_stays_shown_while_the_watch_shows_its_pods_one_after_the_other() -> None:
    """Each of them changes by that, and is looked at anew: what the others need together is unknown meanwhile. A large group would be hidden and shown for ever."""
    for wanted in (request("gpu"), request("gpu", expression=H200)):
        world = fleet({"n1": ("h100", 1)})
        group(world, 3, request("gpu"), wanted, request("gpu"))
        say = said(world)
        say()
        world.clock.now += PATIENCE
        assert say() == {"g0": True, "g1": True, "g2": True}
        for number in (1, 0, 2):
            seen_member(world, f"g{number}", 3)
            world.clock.now += PATIENCE / 2
            assert all(say().values())
        for _ in range(3):
            world.clock.now += PATIENCE
            assert say() == {}


def test_a_group_is_asked_about_when_enough_of_its_pods_have_waited() -> None:
    """A younger one behind its gate does not count as served."""
    world = fleet({"n1": ("h100", 1)})
    look = looking(world)
    group(world, 3, *[request("gpu")] * 2)
    assert look() == set()
    world.clock.now += 1.0
    world.claim("late", request("gpu"))
    member(world, "late", "late", least="3")
    assert look() == set()
    world.clock.now += PATIENCE - 1.0
    assert look() == set()
    world.clock.now += 1.0
    assert look() == {"g0", "g1", "late"}


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


@pytest.mark.slow
@settings(max_examples=60)
@given(
    nodes=st.lists(st.tuples(st.sampled_from(["h100", "h200"]), st.integers(1, 4)), min_size=1, max_size=4),
    wanted=st.lists(st.tuples(st.sampled_from(["h100", "h200"]), st.integers(1, 3)), min_size=1, max_size=5),
    least=st.integers(1, 5),
)
def test_a_group_that_empty_nodes_would_serve_is_not_shown(
    nodes: list[tuple[str, int]], wanted: list[tuple[str, int]], least: int
) -> None:
    """By brute force over the places of its pods; pods of one kind are shown as soon as the nodes are too few."""
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
