"""Pods of groups, and what the queue makes of them."""

from collections.abc import Mapping
from typing import Any

from apportion.allocator.finished import finished
from apportion.api.contract import GATE
from apportion.cluster.kinds import PODS
from apportion.cluster.snapshot import Snapshot
from apportion.scheduling.demands.groupeddemands import GroupedDemands
from apportion.scheduling.demands.groups import Queued, WaitingGroup
from apportion.scheduling.demands.waitingqueue import waiting_demands
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import ObservedCluster, request
from tests.scheduling import openedgates
from tests.scheduling.queued import fleet

OURS = ("apportion.dev/pod-group", "apportion.dev/pod-group-min-count")
KUEUE = ("kueue.x-k8s.io/pod-group-name", "kueue.x-k8s.io/pod-group-total-count")


def member(
    made: ObservedCluster,
    name: str,
    *claims: str,
    least: str | None = "2",
    group: str = "g",
    names: tuple[str, str] = OURS,
    gates: tuple[str, ...] = (GATE,),
    said: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Add a pod of a group, behind our gate; `said`: further annotations."""
    raw = made.pod(name, *claims, gates=gates)
    raw["metadata"]["labels"] = {names[0]: group}
    raw["metadata"]["annotations"] = ({names[1]: least} if least is not None else {}) | dict(said or {})
    return made.see(PODS, raw)


def queue(snapshot: Snapshot) -> list[Queued]:
    """Return the queue of a first pass."""
    grouped = GroupedDemands(snapshot)
    return finished(grouped.queue(grouped.follow((), waiting_demands(snapshot)[0])))


def only_group(made: ObservedCluster) -> WaitingGroup:
    """Return the only entry of the queue, a group."""
    [found] = queue(made.snapshot)
    assert isinstance(found, WaitingGroup)
    return found


def opened(made: ObservedCluster) -> list[str]:
    """Return the pods whose gate can be removed."""
    return sorted(pod.name for pod in openedgates.opened(Gates(made.snapshot)))


def gang(
    pods: int, nodes: int, *, count: int = 3, group: str = "g", into: ObservedCluster | None = None
) -> ObservedCluster:
    """Return a group of pods that want so many devices each, and nodes of four devices."""
    world = into or fleet({f"n{number}": ("common", 4) for number in range(nodes)})
    for number in range(pods):
        world.claim(f"{group}-c{number}", request("gpu", count=count))
        member(world, f"{group}-p{number}", f"{group}-c{number}", group=group, least=str(pods))
    return world
