"""Namespaces take turns in the queue; priority and the order of FIFO policies hold within what users expect."""

from collections.abc import Sequence
from typing import Any

from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PODS
from apportion.scheduling.demands.groups import WaitingGroup
from apportion.scheduling.walk.turns import Turns
from tests.observedcluster import ObservedCluster, request
from tests.scheduling.podgroups import OURS, queue
from tests.scheduling.queued import fleet


def crowded(*rows: tuple[str, str, int, int]) -> ObservedCluster:
    """Return a world with a waiting claim and its pod per row: namespace, name, minute of creation, priority."""
    world = fleet({"n1": ("common", 2)})
    world.device_class("fifo")
    for namespace, name, minute, priority in rows:
        wait(world, namespace, name, minute, priority)
    return world


def wait(
    world: ObservedCluster,
    namespace: str,
    name: str,
    minute: int,
    priority: int = 0,
    device_class: str = "gpu",
) -> dict[str, Any]:
    """Add a claim and its pod."""
    metadata = {
        "name": name,
        "namespace": namespace,
        "creationTimestamp": f"2026-01-01T{minute // 60:02}:{minute % 60:02}:00Z",
    }
    spec = {"devices": {"requests": [request(device_class)]}}
    world.see(CLAIMS, {"metadata": dict(metadata), "spec": spec})
    pod = {
        "metadata": dict(metadata),
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": name}], "priority": priority},
    }
    return world.see(PODS, pod)


def order(world: ObservedCluster) -> list[str]:
    """Return the names of the first claim of each, in the order in which they are decided."""
    found: list[str] = []
    turns = Turns(world.snapshot.managed)
    for each in queue(world.snapshot):
        turns.add(each)
    while turns:
        each = turns.pop()
        members: Sequence[Any] = each.demands if isinstance(each, WaitingGroup) else (each,)
        found.append(members[0].claims[0].name)
    return found


def test_namespaces_take_turns_the_one_that_waits_longest_first() -> None:
    """Within a namespace the older one goes first."""
    rows = [("many", f"m{number}", number, 0) for number in range(4)]
    world = crowded(*rows, ("few", "f0", 30, 0), ("few", "f1", 31, 0), ("one", "o0", 20, 0))
    assert order(world) == ["m0", "o0", "f0", "m1", "f1", "m2", "m3"]


def test_higher_priority_goes_first_whatever_the_namespace() -> None:
    """Turns are taken among those of equal priority."""
    world = crowded(
        ("a", "a0", 0, 0), ("a", "a1", 1, 9), ("a", "a2", 2, 9), ("b", "b0", 3, 0), ("b", "b1", 4, 9)
    )
    assert order(world) == ["a1", "b1", "a2", "a0", "b0"]


def test_demands_of_a_fifo_policy_keep_their_age_among_each_other() -> None:
    """They take the places that turns give to them all, the oldest first; their priority counts as none."""
    world = crowded(("a", "a0", 1, 0))
    world.policy(classes=("fifo",), queue={"order": "FIFO"})
    for number, (namespace, minute) in enumerate([("a", 2), ("a", 3), ("a", 4), ("b", 5)]):
        wait(world, namespace, f"fifo-{number}", minute, priority=number, device_class="fifo")
    assert order(world) == ["a0", "fifo-0", "fifo-1", "fifo-2", "fifo-3"]
    assert [name for name in order(world) if name != "a0"] == sorted(set(order(world)) - {"a0"})


def test_a_group_takes_one_turn() -> None:
    """However many pods it has."""
    world = crowded(("b", "b0", 10, 0))
    for number in range(3):
        pod = wait(world, "a", f"a{number}", number)
        pod["metadata"]["labels"] = {OURS[0]: "g"}
        pod["metadata"]["annotations"] = {OURS[1]: "3"}
        world.see(PODS, pod)
    wait(world, "a", "a9", 9)
    assert order(world) == ["a0", "b0", "a9"]


async def test_a_thousand_demands_of_one_tenant_do_not_keep_the_first_of_another_waiting(
    unanswered: Client,
) -> None:
    """Two devices are free: one for each."""
    world = crowded(*[("many", f"m{number}", number, 0) for number in range(200)], ("few", "f0", 300, 0))
    world.cycle(unanswered).once()
    assert world.places().keys() == {"m0", "f0"}
