"""Pods and claims that hang together, more than one node could serve: some are served, the others come after them, and nobody waits for all of them."""

from collections.abc import Callable

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.dra.nodeconstraints import against
from apportion.scheduling.demands.waiting import MOST_CLAIMS, MOST_PODS, LeftOut, Unservable
from apportion.scheduling.demands.waitingqueue import WaitingQueue, waiting_demands
from apportion.scheduling.reports.telling import AT_ONCE
from apportion.scheduling.room.hostcapacity import HostCapacity
from apportion.scheduling.room.sharing import fits_alone
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.hangingtogether import chain, star
from tests.scheduling.longeststep import longest_step, served_before
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import fleet
from tests.steps import Steps

_GATED = (GATE,)
MANY = MOST_PODS + 44


def cores(number: int, **spec: object) -> Json:
    """Return the spec of a pod that asks for so many cores."""
    return {"containers": [{"name": "main", "resources": {"requests": {"cpu": str(number)}}}], **spec}


def shared(world: ObservedCluster, count: int) -> None:
    """All pods name one claim."""
    world.claim("c0")
    for number in range(count):
        world.pod(f"p{number}", "c0", gates=_GATED, spec=cores(number % 37 + 1))


def too_large(world: ObservedCluster, count: int) -> None:
    """All pods name one claim that has its device, and one of them fits beside it."""
    world.allocate(world.claim("c0"), "n1", "gpu-0")
    for number in range(count):
        world.pod(f"p{number}", "c0", gates=_GATED, spec=cores(1000 if number else 1))


def network_device(world: ObservedCluster, count: int) -> None:
    """All pods name one claim whose network device a pod has."""
    raw = world.allocate(world.claim("c0"), "n1", "gpu-0")
    parameters = {"apiVersion": "config.apportion.dev/v1alpha1", "kind": "NetworkConfig"}
    config = {"source": "FromClaim", "opaque": {"driver": GPU, "parameters": parameters}}
    raw["status"]["allocation"]["devices"]["config"] = [config]
    world.see(CLAIMS, raw)
    world.pod("has", "c0", spec={"nodeName": "n1"})
    for number in range(count):
        world.pod(f"p{number}", "c0", gates=_GATED)


@pytest.mark.slow
@pytest.mark.parametrize("make", [shared, chain, star, too_large, network_device])
async def test_no_step_of_a_pass_grows_with_what_hangs_together(
    unanswered: Client, make: Callable[[ObservedCluster, int], None]
) -> None:
    """When it comes, when a pod or a claim of it changes, and when nothing does."""
    longest = []
    for count in (MANY, 3 * MANY):
        world = fleet({f"n{number}": ("h100", 8) for number in range(4)})
        cycle = served_before(world, unanswered)
        make(world, count)
        found = [longest_step(cycle)]
        for kind, name in ((PODS, "p0"), (CLAIMS, "c0"), (CLAIMS, "c0")):
            raw = world.seen[kind, "team", name]
            raw["metadata"]["labels"] = {"changed": str(world.version)}
            raw["metadata"]["annotations"] = {"changed": str(world.version)}
            world.see(kind, raw)
            world.clock.now += 1
            found.append(longest_step(cycle))
        longest.append(found)
    for few, many in zip(*longest, strict=True):
        # Some steps of a pass look at each for a few millionths of a second, as the plan of what is reserved for those that some left behind.
        assert many < 1.5 * few + 50 * 2 * MANY


@pytest.mark.slow
async def test_no_step_of_a_pass_grows_with_the_pods_whose_claim_is_taken_back(unanswered: Client) -> None:
    """kube-scheduler could place none of them on its node, which is left out for each."""
    longest = []
    for count in (MANY, 3 * MANY):
        world = fleet({f"n{number}": ("h100", 8) for number in range(4)})
        raw = world.allocate(world.claim("c0"), "n1", "gpu-0")
        for number in range(count):
            world.pod(f"p{number}", "c0")
        cycle = served_before(world, unanswered)
        del raw["status"]
        world.see(CLAIMS, raw)
        longest.append(longest_step(cycle))
        assert len([name for name, reason, _ in world.normals if reason == "NodeRefused"]) == count
    assert longest[1] < 1.5 * longest[0] + 3000


@pytest.mark.slow
async def test_no_step_of_a_pass_grows_with_the_number_of_large_demands(unanswered: Client) -> None:
    """They are the last of the queue, and each is placed by itself."""
    longest = []
    for count in (4, 40):
        world = fleet({"n1": ("h100", 8)})
        cycle = served_before(world, unanswered)
        for claim in range(count):
            world.claim(f"c{claim}")
            for number in range(70):
                world.pod(f"p{claim}-{number}", f"c{claim}", gates=_GATED, spec=cores(1000))
        longest.append(longest_step(cycle))
    assert longest[1] < 2 * longest[0]


def test_what_a_node_takes_is_found_out_once_for_all_equal_pods() -> None:
    """Also whether one of them keeps the others out."""
    world = fleet({"n1": ("h100", 8)})
    too_large(world, MANY)
    with Steps(only=fits_alone) as counted:
        assert [pod.name for pod in opened(Gates(world.snapshot))] == ["p0"]
    assert counted.count == 2
    capacity = HostCapacity(world.snapshot.nodes.values())
    pods = [pod for pod in world.snapshot.pods.values() if pod.name != "p0"]
    with Steps(only=against) as counted:
        assert not capacity.fitting(pods)[0]
    assert counted.count == 1


def served(world: ObservedCluster) -> set[str]:
    """Return the names of the claims that have devices."""
    return {*world.places()}


def left_out_of(found: list[Unservable]) -> set[str]:
    """Return the names of the pods."""
    return {each.pod.name for each in found if isinstance(each, LeftOut)}


async def test_pods_beyond_those_for_which_a_claim_can_be_reserved_come_after_them(
    unanswered: Client,
) -> None:
    """An Event tells each of them; once the claim has its device their gates go like those of the others."""
    world = fleet({"n1": ("h100", 8)})
    raw = world.claim("c")
    for number in range(MANY):
        world.pod(f"p{number}", "c", gates=_GATED, spec=cores(0))
    [demand], left_out = waiting_demands(world.snapshot)
    assert len(demand.pods) == MOST_PODS
    others = left_out_of(left_out)
    assert others == {f"p{number}" for number in range(MANY)} - {pod.name for pod in demand.pods}
    world.cycle(unanswered).once()
    texts = [(name, text) for name, reason, text in world.messages if reason == "TooManyAtOnce"]
    assert {name for name, _ in texts} == others
    assert str(MOST_PODS) in texts[0][1]
    assert served(world) == {"c"}
    world.allocate(raw, "n1", "gpu-0")
    assert waiting_demands(world.snapshot) == ([], [])
    assert len(opened(Gates(world.snapshot))) == MANY


async def test_no_pod_waits_behind_others_that_no_node_takes(unanswered: Client) -> None:
    """They are smaller and older; it is the only one that fits."""
    world = fleet({"n1": ("h100", 8)})
    world.claim("c")
    for number in range(MANY):
        world.pod(f"a{number}", "c", gates=_GATED, spec=cores(1, nodeSelector={"is": "nowhere"}))
    world.pod("z", "c", gates=_GATED, spec=cores(64))
    world.cycle(unanswered).once()
    assert served(world) == {"c"}


async def test_as_many_pods_of_many_are_served_as_a_node_takes(unanswered: Client) -> None:
    """Each with its own claim, and one that all name; the others are then looked at one by one, for the same node."""
    world = fleet({"n1": ("h100", 8), "n2": ("h100", 16)})
    star(world, MANY)
    world.cycle(unanswered).once()
    assert len(served(world)) == 11  # ten pods on a node
    assert {*world.places().values()} == {"n2"}
    demands, left_out = waiting_demands(world.snapshot)
    assert not left_out
    assert len(demands) == MANY - 10
    assert all([claim.name for claim in demand.tied] == ["c0"] for demand in demands)


async def test_a_pod_with_more_claims_than_a_demand_may_have_keeps_nobody_waiting(unanswered: Client) -> None:
    """It is told so, with both numbers; another pod that names one of its claims is served."""
    world = fleet({"n1": ("h100", 8)})
    for number in range(MOST_CLAIMS + 1):
        world.claim(f"c{number}")
    world.pod("p", *(f"c{number}" for number in range(MOST_CLAIMS + 1)), gates=_GATED)
    world.pod("q", "c7", gates=_GATED)
    world.cycle(unanswered).once()
    assert served(world) == {"c7"}
    texts = {text for name, reason, text in world.messages if (name, reason) == ("p", "TooManyAtOnce")}
    assert len(texts) == 1
    assert {str(MOST_CLAIMS), str(MOST_CLAIMS + 1)} <= {*texts.pop().split()}


async def test_thousands_that_wait_for_one_network_device_hear_of_it_a_few_in_a_pass(
    unanswered: Client,
) -> None:
    """Each once, and again after a while."""
    world = fleet({"n1": ("h100", 8)})
    network_device(world, MANY)
    cycle = world.cycle(unanswered)
    messages = []
    for _ in range(4):
        cycle.once()
        messages.append(len([name for name, reason in world.warned if reason == "NetworkDeviceTaken"]))
    assert messages == [0, AT_ONCE, MANY, MANY]


@pytest.mark.slow
def test_a_look_that_is_given_up_loses_nothing() -> None:
    """Another replica acted meanwhile, perhaps."""
    world = fleet({"n1": ("h100", 8)})
    star(world, MANY)
    queue = WaitingQueue(world.snapshot)
    queue.demands()
    for number in range(1, 40, 4):
        world.claim("c0", request("gpu", count=number))
        steps = queue.gather()
        for _ in range(number):
            next(steps, None)
        steps.close()
        (demands, left_out), (fresh, others) = queue.demands(), waiting_demands(world.snapshot)
        assert len(demands) == len(fresh) == 1
        assert demands[0] == fresh[0]
        assert left_out_of(left_out) == left_out_of(others)
