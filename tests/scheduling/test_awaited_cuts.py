"""Partitions that nobody cuts: a node or an agent died between the allocation and the cut, and the Node object stays, as on bare metal."""

import asyncio

import pytest

from apportion.api.contract import GATE
from apportion.cluster.client import Client
from apportion.cluster.kinds import CLAIMS, NODES, PARTITIONS, SLICES
from apportion.dra.device import DeviceId
from apportion.scheduling.candidates.exclusions import Exclusions
from apportion.scheduling.clearing.awaitedcuts import PATIENCE, AwaitedCuts
from apportion.scheduling.cycle import Cycle
from apportion.scheduling.pace import AT_ONCE
from tests.observedcluster import GPU, Json, ObservedCluster, request
from tests.scheduling.givenback import UNUSED_TIMEOUT, ended, tried
from tests.scheduling.longeststep import longest_step
from tests.scheduling.podgroups import member
from tests.scheduling.reservedahead import consumer, owner

PART = "gpu-0-mig-1g10gb-19-0"


def mig(*nodes: str) -> ObservedCluster:
    """Return nodes with a card each, and a class of its partitions."""
    world = ObservedCluster()
    world.device_class("gpu", expression=f"device.attributes['{GPU}'].type == 'mig'")
    for node in nodes:
        world.node(node)
        world.card(node)
    return world


def partition(world: ObservedCluster, claim: Json, node: str, phase: str = "") -> Json:
    """Show the Partition that a claim has on a node; without a phase no agent has said anything of it."""
    metadata = claim["metadata"]
    spec = {
        "nodeName": node, "driver": GPU, "pool": node, "device": PART, "parent": "gpu-0", "profile": "1g.10gb",
        "placement": {"start": 0, "size": 1}, "origin": "Claim",
        "holder": {"kind": "ResourceClaim", "namespace": "team", "name": metadata["name"], "uid": metadata["uid"]},
    }  # fmt: skip
    status = {"phase": phase} if phase else {}
    return world.see(PARTITIONS, {"metadata": {"name": f"{node}-{PART}"}, "spec": spec, "status": status})


def uncut(how: str = "by name", by: str = "apportion-operator") -> tuple[ObservedCluster, Json]:
    """Return two nodes, and a gated pod whose claim has a partition on n1 that nobody has cut; `how`: "reserved" with its allocation, or not."""
    world = mig("n1", "n2")
    claim, pod = world.claim("c"), world.pod("p", "c", gates=[GATE])
    if how == "reserved":
        claim["metadata"]["ownerReferences"] = [owner(pod)]
    reserved = [consumer(pod)] if how == "reserved" else []
    claim = world.allocate(claim, "n1", PART, by=by, reservedFor=reserved)
    partition(world, claim, "n1")
    return world, claim


async def waited(world: ObservedCluster, cycle: Cycle, seconds: float = PATIENCE) -> list[str]:
    """Make a pass, and another one after that time; return the claims whose allocation was to be cleared."""
    found = await tried(cycle)
    world.clock.now += seconds
    return found + await tried(cycle)


async def cleared(world: ObservedCluster, cycle: Cycle, claim: Json) -> dict[str, DeviceId]:
    """Show that a claim has no devices any more; return what the next pass chooses, by claim."""
    claim["status"] = {}
    world.snapshot.clearing(claim["metadata"]["uid"])
    world.see(CLAIMS, claim)
    return await chosen(world, cycle)


async def chosen(world: ObservedCluster, cycle: Cycle) -> dict[str, DeviceId]:
    """Make a pass, and return what it chose, by claim."""
    before = asyncio.all_tasks()
    cycle.once()
    found = {
        claim.name: allocation.results[0].device
        for claim in world.snapshot.claims.values()
        if (allocation := world.snapshot.allocation(claim)) is not None
    }
    await ended(before)
    return found


@pytest.mark.parametrize("how", ["reserved", "by name"])
async def test_a_pod_leaves_a_node_that_died_before_it_cut_the_partition(
    unanswered: Client, how: str
) -> None:
    """Whether others wait for the devices or not."""
    world, claim = uncut(how)
    cycle = world.cycle(unanswered)
    dead = world.node("n1")
    taints = [
        {"key": "node.kubernetes.io/unreachable", "effect": effect} for effect in ("NoExecute", "NoSchedule")
    ]
    world.see(NODES, dead | {"spec": {"taints": taints}})
    assert await waited(world, cycle, PATIENCE - 1) == []
    world.clock.now += 1
    assert await tried(cycle) == ["c"]
    assert (await cleared(world, cycle, claim))["c"].pool == "n2"


async def test_a_pod_leaves_a_node_whose_agent_cuts_nothing_though_the_node_is_well(
    unanswered: Client,
) -> None:
    """Its other placements would be waited for as long."""
    world, claim = uncut()
    cycle = world.cycle(unanswered)
    assert await waited(world, cycle) == ["c"]
    assert (await cleared(world, cycle, claim))["c"].pool == "n2"


async def test_others_do_not_get_the_partition_at_once_that_nobody_cut(unanswered: Client) -> None:
    """They get another one of the node, which its agent may cut."""
    world, claim = uncut()
    cycle = world.cycle(unanswered)
    await waited(world, cycle)
    here = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [here]}}
    small = request("gpu", expression=f"device.attributes['{GPU}'].profile == '1g.10gb'")
    world.wait_for("other", small, spec={"affinity": {"nodeAffinity": required}})
    other = (await cleared(world, cycle, claim))["other"]
    assert other.pool == "n1"
    assert other.name != PART


async def test_an_agent_has_its_time_though_others_wait_for_the_devices(unanswered: Client) -> None:
    """A policy's unusedTimeout is for what no scheduler takes."""
    world, _ = uncut()
    world.gone(NODES, world.seen[NODES, "", "n2"])
    world.wait_for("whole", request("gpu", expression=f"device.attributes['{GPU}'].profile == '7g.80gb'"))
    cycle = world.cycle(unanswered)
    assert await waited(world, cycle, UNUSED_TIMEOUT + 1) == []
    world.clock.now += PATIENCE - UNUSED_TIMEOUT - 1
    assert await tried(cycle) == ["c"]


async def test_the_only_node_is_tried_once_more_after_a_pause(unanswered: Client) -> None:
    """Its agent may be back; and the Event says why nothing is chosen until then."""
    world, claim = uncut()
    for raw in [raw for (kind, _, name), raw in world.seen.items() if kind == SLICES and name[:2] == "n2"]:
        world.gone(SLICES, raw)
    world.gone(NODES, world.seen[NODES, "", "n2"])
    cycle = world.cycle(unanswered)
    await waited(world, cycle)
    assert await cleared(world, cycle, claim) == {}
    text = next(text for name, _, text in world.messages if name == "c")
    assert "nobody cut a partition there" in text
    world.clock.now += 11
    assert (await chosen(world, cycle))["c"].pool == "n1"


@pytest.mark.parametrize("slices", ["there", "gone"])
async def test_a_group_leaves_a_node_that_died_before_it_cut_the_partition(
    unanswered: Client, slices: str
) -> None:
    """Else all of its devices stay behind the gate; kubelet, if it lives, takes the slices of an agent away after 30 s."""
    world = mig("n1", "n2", "n3")
    for number, (node, phase) in enumerate((("n1", ""), ("n2", "Ready"))):
        claim = world.allocate(world.claim(f"c{number}"), node, PART)
        member(world, f"p{number}", f"c{number}")
        partition(world, claim, node, phase)
    if slices == "gone":
        for raw in [raw for (kind, _, name), raw in world.seen.items() if kind == SLICES and "n1-" in name]:
            world.gone(SLICES, raw)
    assert await waited(world, world.cycle(unanswered)) == ["c0"]


@pytest.mark.parametrize("other", ["runs", "may be bound", "is no pod"])
async def test_what_a_pod_may_have_started_with_is_not_cleared(unanswered: Client, other: str) -> None:
    """Another pod that names the claim lost its gate when the partition was cut: by a reset of the card it is gone for a moment."""
    world, claim = uncut()
    if other == "may be bound":
        world.pod("q", "c")
    else:
        job = {"apiGroup": "batch", "resource": "jobs", "name": "j", "uid": "u"}
        runs = consumer(world.pod("q", "c", spec={"nodeName": "n1"})) if other == "runs" else job
        claim["status"]["reservedFor"] = [runs]
        world.see(CLAIMS, claim)
    cycle = world.cycle(unanswered)
    for _ in range(4):
        assert await waited(world, cycle) == []


async def test_what_another_allocator_chose_is_not_cleared(unanswered: Client) -> None:
    """It is that one's to take back."""
    world, _ = uncut(by="kube-scheduler")
    assert await waited(world, world.cycle(unanswered)) == []


async def test_a_clear_that_failed_is_repeated_but_not_in_each_pass(unanswered: Client) -> None:
    """Passes follow each other as fast as anything changes."""
    world, _ = uncut()
    cycle = world.cycle(unanswered)
    assert await waited(world, cycle) == ["c"]
    assert await tried(cycle) == []
    world.clock.now += 10
    assert await tried(cycle) == ["c"]


async def test_the_time_is_counted_anew_when_the_partition_was_there_meanwhile(unanswered: Client) -> None:
    """A group may wait for another member for long; a reboot of the node then takes a moment."""
    world = mig("n1", "n2")
    claim = world.allocate(world.claim("c0"), "n1", PART)
    other = world.allocate(world.claim("c1"), "n2", PART)
    for number in range(2):
        member(world, f"p{number}", f"c{number}")
    partition(world, other, "n2")
    raw = partition(world, claim, "n1")
    cycle = world.cycle(unanswered)
    await tried(cycle)
    world.see(PARTITIONS, raw | {"status": {"phase": "Ready"}})
    world.clock.now += PATIENCE - 10
    await tried(cycle)
    world.see(PARTITIONS, raw | {"status": {"phase": "Pending"}})
    await tried(cycle)
    world.clock.now += 10
    assert await tried(cycle) == ["c1"]


def test_a_new_leader_counts_from_when_it_began() -> None:
    """What the former one saw nobody knows. And no claim is cleared while a gate of its pods goes."""
    world, claim = uncut()
    value, ungating = world.claim_value(claim), set[str]()
    cuts = AwaitedCuts(
        world.snapshot, world.clock, manager="apportion-operator", ungating=ungating.__contains__
    )
    assert [*cuts.overdue([value])] == []
    cuts.begin_anew()
    world.clock.now += PATIENCE
    assert [*cuts.overdue([value])] == []
    world.clock.now += PATIENCE
    ungating.update(world.snapshot.pods)
    assert [*cuts.overdue([value])] == []
    ungating.clear()
    assert [*cuts.overdue([value])] == [value]


async def test_the_pods_of_a_claim_whose_partition_nobody_cuts_leave_its_node_in_steps(
    unanswered: Client,
) -> None:
    """3,000 pods that name the same 56 claims took 0.9 s in one piece."""
    world, _ = uncut()
    for number in range(3 * AT_ONCE):
        world.pod(f"p{number}", "c", gates=[GATE])
    cycle = world.cycle(unanswered)
    cycle.once()
    world.clock.now += PATIENCE
    assert 0 < longest_step(cycle, Exclusions.refuse_node) <= AT_ONCE
    assert cycle._exclusions.nodes(["uid-team-pods-p100"], world.snapshot.node) == {"n1"}
