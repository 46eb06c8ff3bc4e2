"""Whole cards from which nobody removes a partition: a process of the host's uses it, and the pod that got the card waits behind its gate."""

from functools import partial

from apportion.allocator.finished import finished
from apportion.api.contract import AGENT_FINALIZER, GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, PARTITIONS
from apportion.dra.device import DeviceId
from apportion.partitions.claimphase import phase_of
from apportion.scheduling.clearing.awaitedcuts import PATIENCE, awaited_of
from apportion.scheduling.writing.gates import Gates
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.givenback import tried
from tests.scheduling.test_awaited_cuts import PART, cleared, mig, partition, waited


def occupied() -> tuple[ObservedCluster, Json]:
    """Return two nodes, and a gated pod with the whole card of n1, from which its agent has not removed an idle partition that is being deleted."""
    world = mig("n1", "n2")
    world.device_class("whole", expression=f"device.attributes['{GPU}'].type == 'gpu'")
    claim = world.claim("c", request("whole"))
    world.pod("p", "c", gates=[GATE])
    claim = world.allocate(claim, "n1", "gpu-0")
    raw = partition(world, claim, "n1", "Releasing")
    del raw["spec"]["holder"]
    raw["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": [AGENT_FINALIZER]}
    world.see(PARTITIONS, raw)
    return world, claim


async def test_a_pod_leaves_a_card_from_which_an_idle_partition_does_not_go(unanswered: Client) -> None:
    """A process of the host's may use it for days; bound, the pod would wait there for as long, and kubelet could tell nobody."""
    world, claim = occupied()
    cycle = world.cycle(unanswered)
    assert await waited(world, cycle, PATIENCE - 1) == []
    assert startable(world) == []
    world.clock.now += 1
    assert await tried(cycle) == ["c"]
    assert (await cleared(world, cycle, claim))["c"] == DeviceId(GPU, "n2", "gpu-0")


async def test_cards_that_a_claim_only_looks_at_are_not_waited_for(unanswered: Client) -> None:
    """A monitor has them as they are, partitions of others included: others would not get them for a while."""
    world, claim = occupied()
    claim["status"]["allocation"]["devices"]["results"][0]["adminAccess"] = True
    claim = world.see(CLAIMS, claim)
    assert startable(world) == ["p"]
    assert awaited_of(world.claim_value(claim), world.snapshot) == []


def test_a_pod_with_a_whole_card_starts_once_the_card_is_empty() -> None:
    """The last of its partitions has gone; nothing else of the card changes with that."""
    world, _ = occupied()
    assert startable(world) == []
    wakes = world.wakes
    world.gone(PARTITIONS, world.seen[PARTITIONS, "", f"n1-{PART}"])
    assert startable(world) == ["p"]
    assert world.wakes > wakes


def startable(world: ObservedCluster) -> list[str]:
    """Return the names of the pods whose gate can be removed."""
    gates, phase = Gates(world.snapshot), partial(phase_of, snapshot=world.snapshot)
    return [pod.name for pod in finished(gates.open(contested=frozenset(), phase=phase))]
