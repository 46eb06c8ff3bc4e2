"""Groups on nodes that are close together: what a policy, an annotation and a PodGroup say."""

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, POD_GROUPS, PODS
from apportion.dra.groupmembership import KUEUE_PREFERRED, KUEUE_REQUIRED, MODE, TOPOLOGY
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.deciding import Deciding
from tests.scheduling.podgroups import member
from tests.scheduling.queued import fleet
from tests.scheduling.test_extended_resources import named
from tests.scheduling.test_other_claims import beside

RACK, CLIQUE = "example.com/rack", "nvidia.com/gpu.clique"


def racks(**racks: tuple[int, ...]) -> ObservedCluster:
    """Return nodes of so many devices each, by rack; every node of rack `a` is a clique of its own, the others' nodes are one."""
    world = fleet(
        {f"{rack}{n}": ("common", free) for rack, rows in racks.items() for n, free in enumerate(rows)}
    )
    for rack, rows in racks.items():
        for number in range(len(rows)):
            raw: Json = world.node(f"{rack}{number}", cpu="64")
            raw["metadata"]["labels"] = {RACK: rack, CLIQUE: f"{rack}{number if rack == 'a' else ''}"}
            world.see(NODES, raw)
    return world


def group(world: ObservedCluster, pods: int, said: dict[str, str] | None = None) -> None:
    for number in range(pods):
        world.claim(f"c{number}")
        member(world, f"p{number}", f"c{number}", least=str(pods), said=said)


@pytest.mark.parametrize(
    "said",
    [{TOPOLOGY: RACK, MODE: "Required"}, {KUEUE_REQUIRED: RACK}],
    ids=["our annotations", "Kueue's annotation"],
)
async def test_a_group_whose_rack_has_to_be_one_waits_for_one_that_has_room(
    unanswered: Client, said: dict[str, str]
) -> None:
    """Its Event names the label, and the rack that has the most."""
    world = racks(a=(2,), b=(2, 1))
    group(world, 4, said)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    [text] = {text for name, reason, text in world.messages if (name, reason) == ("p0", "ClaimsNotAllocated")}
    assert (
        f"on nodes with one value of {RACK}, and no value has room for so many; b has the most, for 3" in text
    )

    world.slice("a0", "a0-devices", {"devices": [{"name": f"gpu-{number}"} for number in range(4)]}, 1)
    cycle.once()

    assert set(world.places().values()) == {"a0"}


@pytest.mark.parametrize("said", [{TOPOLOGY: RACK}, {KUEUE_PREFERRED: RACK}], ids=["ours", "Kueue's"])
async def test_a_group_that_prefers_one_rack_takes_as_few_as_it_goes(
    unanswered: Client, said: dict[str, str]
) -> None:
    """And is served all the same."""
    world = racks(a=(1,), b=(2, 1), c=(1,))
    group(world, 4, said)

    world.cycle(unanswered).once()

    assert {node[0] for node in world.places().values() if node} == {"b", "a"}


async def test_the_ladder_of_a_policy_holds_for_every_group(unanswered: Client) -> None:
    """The closest label first: two cliques of rack a would hold the group, and so does one of rack c."""
    world = racks(a=(2, 2), b=(1,), c=(2, 4))
    world.policy(groupLadder=[{"nodeLabel": CLIQUE}, {"nodeLabel": RACK}])
    group(world, 4)

    world.cycle(unanswered).once()

    assert {node[0] for node in world.places().values() if node} == {"c"}


async def test_what_a_policy_requires_is_required(unanswered: Client) -> None:
    """Although there are devices enough elsewhere."""
    world = racks(a=(2,), b=(2,))
    world.policy(groupLadder=[{"nodeLabel": RACK, "required": True}])
    group(world, 3)

    world.cycle(unanswered).once()

    assert world.places() == {}


async def test_pods_of_neighbouring_indexes_are_in_one_rack(unanswered: Client) -> None:
    """Whatever the order in which they were made."""
    world = racks(a=(3,), b=(2,), c=(1,))
    world.policy(groupLadder=[{"nodeLabel": RACK}])
    index = "batch.kubernetes.io/job-completion-index"
    for name, number in zip("abcdef", (2, 0, 5, 4, 1, 3), strict=True):
        world.claim(name)
        member(world, f"p{name}", name, least="6", said={index: str(number)})

    world.cycle(unanswered).once()

    assert [(world.places()[name] or "")[0] for name in "bea" + "fd" + "c"] == [*"aaabbc"]


async def test_a_podgroup_object_says_how_many_and_in_one_domain_of_what(unanswered: Client) -> None:
    """Its pods name it; before it exists they wait."""
    world = racks(a=(2,), b=(1, 1), c=(1,))
    for number in range(2):
        world.claim(f"c{number}")
        raw = world.pod(f"p{number}", f"c{number}", spec={"schedulingGroup": {"podGroupName": "train"}})
        world.see(PODS, raw)
    cycle = world.cycle(unanswered)
    cycle.once()
    assert world.places() == {}
    assert ("p0", "BrokenGroup") in world.warned

    spec = {
        "schedulingPolicy": {"gang": {"minCount": 2}},
        "schedulingConstraints": {"topology": [{"key": CLIQUE}]},
    }
    world.see(POD_GROUPS, {"metadata": {"name": "train", "namespace": "team"}, "spec": spec})
    cycle.once()

    assert set(world.places().values()) in ({"a0"}, {"b0", "b1"})
    assert len(world.places()) == 2


async def test_what_kube_scheduler_allocates_takes_no_room_of_a_rack(unanswered: Client) -> None:
    """A DeviceClass is behind the extended resource, and no device plugin offers it: no node counts any of it."""
    world = racks(a=(1, 1))
    beside(world, a0={}, a1={})
    named(world, "nics", "example.com/nic", managed=False)
    resources = {"requests": {"cpu": "1", "example.com/nic": "1"}}
    for number in range(2):
        world.claim(f"c{number}", request("gpu", expression=f'device.driver == "{GPU}"'))
        raw = member(world, f"p{number}", f"c{number}", said={TOPOLOGY: RACK, MODE: "Required"})
        raw["spec"]["containers"] = [{"name": "main", "resources": resources}]
        world.see(PODS, raw)

    world.cycle(unanswered).once()

    assert sorted(node or "" for node in world.places().values()) == ["a0", "a1"]


async def test_a_pod_that_goes_while_its_group_is_decided_is_nowhere(unanswered: Client) -> None:
    """The decision about the other ones began with it: they are decided anew, and nothing is a defect."""
    world = racks(a=(2,), b=(2,))
    group(world, 3, {TOPOLOGY: RACK})
    bound = world.seen[PODS, "team", "p0"]
    bound["spec"] |= {"nodeName": "b0", "schedulingGates": []}
    world.see(PODS, world.allocate(world.claim("c0"), "b0", "gpu-0") and bound)
    deciding = Deciding(world, unanswered)
    steps = deciding.steps()
    next(steps)
    next(steps)
    world.gone(PODS, bound)

    assert sum(steps) == 0
