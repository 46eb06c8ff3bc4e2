"""The cycle looks at what pods take of a node beside devices."""

import pytest

from apportion.allocator.facts.host import HostResources
from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, PODS
from apportion.dra.excess import MOST_REQUIREMENTS, MOST_VALUES
from apportion.dra.selection import Requirement, Term
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.queued import fleet
from tests.steps import Steps

WHOLE = 'device.attributes["gpu.apportion.dev"].type == "gpu"'


@pytest.mark.parametrize("poor", ["n1", "n2"])
async def test_a_pod_that_needs_little_leaves_cores_to_those_that_need_many(
    unanswered: Client, poor: str
) -> None:
    """Two pods that need many cores went to the node that has them; the third would fit beside them, too."""
    rich = "n2" if poor == "n1" else "n1"
    world = ObservedCluster()
    world.node(poor, cpu="8")
    world.node(rich, cpu="64")
    for node in (poor, rich):
        gpus = [{"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}} for number in range(4)]
        world.slice(node, f"{node}-gpus", {"devices": gpus}, 1)
    world.device_class("gpu")

    def arrive(name: str, cpu: str) -> None:
        world.claim(name, request("gpu", expression=WHOLE))
        resources = {"requests": {"cpu": cpu}}
        world.pod(f"pod-{name}", name, spec={"containers": [{"name": "main", "resources": resources}]})

    cycle = world.cycle(unanswered)
    for pods in ({"first": "16", "second": "16"}, {"third": "500m"}):
        for name, cpu in pods.items():
            arrive(name, cpu)
        cycle.once()
    assert world.places() == {"first": rich, "second": rich, "third": poor}


@pytest.mark.parametrize("spec", [{"cpu": "8"}, {"port": 80}], ids=["cpu", "host port"])
async def test_a_pod_counts_on_its_node_when_that_can_take_it_once_more(
    unanswered: Client, spec: Json
) -> None:
    """The pod changed while its node was cordoned, and did not when the cordon ended."""
    world = ObservedCluster()
    world.device_class("gpu")
    node = world.node("n1", cpu="15")
    world.slice("n1", "n1-gpus", {"devices": [{"name": "gpu-0"}, {"name": "gpu-1"}]}, 1)
    container: Json = {"name": "main", "resources": {"requests": {"cpu": spec.get("cpu", "1")}}}
    if "port" in spec:
        container["ports"] = [{"containerPort": 80, "hostPort": spec["port"]}]
    world.allocate(world.claim("first"), "n1", "gpu-0")
    first = world.pod("first", "first", gates=(GATE,), spec={"containers": [container]})
    world.wait_for("second", request("gpu", count=3), {"containers": [container]})
    cycle = world.cycle(unanswered)
    cycle.once()
    world.see(NODES, node | {"spec": {"unschedulable": True}})
    first["metadata"]["labels"] = {"app": "a"}
    world.see(PODS, first)
    cycle.once()
    world.see(NODES, node | {"spec": {}})
    world.wait_for("second", request("gpu"), {"containers": [container]})
    cycle.once()
    assert world.places() == {"first": "n1"}


def test_the_allocator_knows_what_bound_pods_leave() -> None:
    """Bound pods count until they are finished or gone, in whatever order things are seen; nodes go with their room."""
    world = ObservedCluster()
    gib = 1 << 30
    bound = {
        "nodeName": "n1",
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}],
    }
    early = world.pod("early", spec=bound)
    node = world.node("n1", cpu="8")
    late = world.pod("late", spec=bound)
    left = world.snapshot.state.hosts.left
    assert left == {"n1": HostResources(4_000, 30 * gib)}
    world.see(PODS, {**late, "status": {"phase": "Succeeded"}})
    assert left == {"n1": HostResources(6_000, 31 * gib)}
    world.gone(PODS, early)
    assert left == {"n1": HostResources(8_000, 32 * gib)}
    world.gone(NODES, node)
    assert left == {}


async def test_node_affinity_is_compared_with_each_node_once_and_in_steps(unanswered: Client) -> None:
    """Of as many terms as a pod may have."""
    nodes = 50
    world = fleet({f"n{number}": ("h100", 1) for number in range(nodes)})
    cycle = served_before(world, unanswered)
    values = [f"host-{number}" for number in range(2 * MOST_REQUIREMENTS)]
    for first, name in enumerate("cd"):
        terms = [
            {"matchExpressions": [{"key": "x", "operator": "In", "values": [value]}]}
            for value in values[first : first + MOST_REQUIREMENTS]
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        world.claim(name, request("gpu"))
        world.pod(name, name, spec={"affinity": {"nodeAffinity": required}})
        if first == 0:
            with Steps(only=Term.matches) as counted:
                cycle.once()
            assert counted.count == nodes * MOST_REQUIREMENTS
        else:
            assert longest_step(cycle, only=Term.matches) < 10 * MOST_REQUIREMENTS
        assert (name, "NotAllocated") in world.warned


def test_values_are_looked_up_not_compared_one_by_one() -> None:
    """A term may name the hosts of a large cluster, and each node is looked up among them."""

    class Value(str):
        """Counts how often it is compared."""

        __slots__ = ()
        count = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Value.count += 1
            return str(self) == str(other)

    asked = Requirement("x", "In", tuple(Value(number) for number in range(MOST_VALUES)))
    before = Value.count
    assert asked.matches(str(MOST_VALUES - 1))
    assert not asked.matches("other")
    assert Value.count - before < 5
