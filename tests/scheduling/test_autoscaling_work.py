"""Who makes thousands of unlike pods that no node could serve keeps nobody waiting: they are asked about over several passes, and not about all nodes in one step."""

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.dra.nodeconstraints import against
from apportion.scheduling.autoscaling.autoscaling import PATIENCE
from apportion.scheduling.autoscaling.emptynodes import EmptyNodes
from apportion.scheduling.demands.groups import group_of
from apportion.scheduling.pace import AT_ONCE
from tests.clock import Ticking
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.longeststep import longest_step
from tests.scheduling.lookingfornodes import H200, looking
from tests.scheduling.podgroups import member
from tests.scheduling.queued import fleet
from tests.steps import Steps

SHAPES = 40


def wait(world: ObservedCluster, *names: str, namespace: str) -> None:
    """Let pods wait for a model that is not there, each with a toleration of its own."""
    for name in names:
        own = {"tolerations": [{"key": name, "operator": "Exists"}]}
        world.claim(name, request("gpu", expression=H200), namespace=namespace)
        world.pod(name, name, gates=(GATE,), namespace=namespace, spec=own)


def test_each_look_asks_for_a_while_of_each_namespace_in_turn() -> None:
    """The one of the other tenant came last and is among the first; all are shown in the end, also when all is asked anew meanwhile."""
    world = fleet({"n1": ("h100", 1)})
    world.clock = Ticking(step=0.02)
    many = {f"p{number}" for number in range(SHAPES)}
    wait(world, *sorted(many), namespace="team")
    wait(world, "other", namespace="others")
    look = looking(world)
    assert look() == set()
    world.clock.now += PATIENCE
    first = look()
    assert "other" in first
    assert len(first) < SHAPES / 4
    world.node("n2", cpu="1")
    world.clock.now += PATIENCE
    later = set[str]()
    for _ in range(SHAPES):
        later |= look()
    assert later >= many


async def test_a_cycle_goes_on_at_once_with_what_a_pass_has_not_asked(unanswered: Client) -> None:
    """Nothing else would begin the next pass of a quiet cluster."""
    world = fleet({"n1": ("h100", 1)})
    world.clock = Ticking(step=0.02)
    wait(world, *(f"p{number}" for number in range(SHAPES)), namespace="team")
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)
    cycle = world.cycle(unanswered, debouncer=debouncer)
    cycle.once()
    world.clock.now += PATIENCE
    cycle.once()
    passes = 1
    while debouncer.awake:
        await debouncer.burst(within=0)
        cycle.once()
        passes += 1
    assert 1 < passes < SHAPES
    assert len({name for name, reason in world.warned if reason == "ShownToAutoscalers"}) == SHAPES


def test_a_group_is_asked_about_once_for_all_of_its_pods_that_come_within_a_second() -> None:
    """They come one after the other, and each question counts all that have waited. What the last ones say is not left out."""
    world = fleet({"n1": ("h100", 8)})
    look = looking(world)
    asked = 0
    names = [f"g{number:02}" for number in range(40)]
    for name in [*names, *[""] * 400]:
        if name:
            world.claim(name, request("gpu"))
            member(world, name, name, least="40")
        with Steps(group_of) as counted:
            found = look()
        asked += counted.count
        if found:
            break
        world.clock.now += 0.05
    assert found == set(names)
    assert asked <= 5


async def test_nodes_are_looked_at_in_steps(unanswered: Client) -> None:
    """A pod may have thousands of values in its node affinity."""
    world = fleet({f"n{number}": ("h100", 1) for number in range(3 * AT_ONCE)})
    wait(world, "p", namespace="team")
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    assert 0 < longest_step(cycle, only=against) <= AT_ONCE
    assert ("p", "ShownToAutoscalers") in world.warned


async def test_demands_are_asked_about_in_steps_where_the_first_node_answers(unanswered: Client) -> None:
    """Hard claims of one tenant were asked about one after the other for a tenth of a second."""
    world = fleet({"n1": ("h100", 1)})
    world.allocate(world.claim("used"), "n1", "gpu-0")
    world.pod("used", "used", spec={"nodeName": "n1"})
    for name in ("a", "b", "c"):
        own = {"tolerations": [{"key": name, "operator": "Exists"}]}
        world.claim(name)
        world.pod(name, name, gates=(GATE,), spec=own)
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    assert longest_step(cycle, only=EmptyNodes._most_on) == 1
