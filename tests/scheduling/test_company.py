"""Pods that share claims, and of which one needs another one's company on its node."""

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.demands.waiting import MOST_PODS
from apportion.scheduling.room.company import in_order, is_company
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import Json, ObservedCluster, request
from tests.scheduling.openedgates import opened
from tests.scheduling.queued import fleet
from tests.steps import Steps

HOST = "kubernetes.io/hostname"


def cluster() -> ObservedCluster:
    world = fleet({"n1": ("h100", 1), "n2": ("h100", 1)})
    for name in ("n1", "n2"):
        world.node(name, cpu="64", **{HOST: name})
    world.claim("c", request("gpu"))
    return world


def comes(world: ObservedCluster, name: str, app: str, needs: str = "", *, gate: bool = True) -> Json:
    """Let a pod wait that names the claim; `needs`: the app whose company it needs."""
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": needs}}}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    spec = {"affinity": {"podAffinity": required}} if needs else {}
    raw = world.pod(name, "c", gates=(GATE,) if gate else (), spec=spec)
    raw["metadata"]["labels"] = {"app": app}
    return world.see(PODS, raw)


@pytest.mark.parametrize("needs", ["", "db"], ids=["none", "itself"])
async def test_the_pods_get_devices_together(needs: str, unanswered: Client) -> None:
    """Each waited for the node of the other one, which waited with it for the devices."""
    world = cluster()
    comes(world, "a", "web", "db")
    comes(world, "b", "db", needs)
    comes(world, "c", "cache", "web")
    world.cycle(unanswered).once()
    assert world.places().keys() == {"c"}


async def test_pods_that_need_each_other_wait(unanswered: Client) -> None:
    """kube-scheduler places neither before the other one."""
    world = cluster()
    comes(world, "a", "web", "db")
    comes(world, "b", "db", "web")
    world.cycle(unanswered).once()
    assert world.places() == {}


@pytest.mark.parametrize("needs", ["", "db"], ids=["none", "itself"])
def test_who_needs_company_keeps_its_gate_until_that_has_reserved_the_claim(needs: str) -> None:
    """kube-scheduler would find no node for it, and take the devices back."""
    world = cluster()
    comes(world, "a", "web", "db")
    first = comes(world, "b", "db", needs)
    comes(world, "c", "db", needs)
    claim = world.allocate(world.seen[CLAIMS, "team", "c"], "n1", "gpu-0")
    gates = Gates(world.snapshot)
    assert {pod.name for pod in opened(gates)} == {"b", "c"}
    claim["status"]["reservedFor"] = [{"resource": "pods", "name": "b", "uid": first["metadata"]["uid"]}]
    world.see(CLAIMS, claim)
    assert {pod.name for pod in opened(gates)} == {"a", "b", "c"}


def test_each_of_two_pods_is_asked_once_whether_it_is_the_others_company() -> None:
    """However long the chain is in which one needs the next."""
    world, count = cluster(), 41
    numbers = [each * 16 % count for each in range(count)]
    pods = [world.pod_value(comes(world, f"p{each}", f"a{each}", f"a{each + 1}")) for each in numbers]
    with Steps(only=is_company) as counted:
        ordered = in_order(pods)
    assert [pod.name for pod in ordered] == [f"p{each}" for each in reversed(range(count))]
    assert counted.count <= count * count


@pytest.mark.parametrize(("count", "gates"), [(40, 1), (MOST_PODS + 10, MOST_PODS + 10)])
def test_of_more_pods_than_can_reserve_a_claim_none_waits_for_anothers_company(
    count: int, gates: int
) -> None:
    """Each of them needs the next one's, and each pair of them would be looked at."""
    world = cluster()
    for number in range(count):
        comes(world, f"p{number}", f"a{number}", f"a{number + 1}" if number < count - 1 else "")
    claim = world.seen[CLAIMS, "team", "c"]
    world.allocate(claim, "n1", "gpu-0")
    with Steps(only=is_company) as counted:
        found = opened(Gates(world.snapshot))
    assert len(found) == gates
    assert counted.count <= 3 * 40 * 40
