"""A group is decided in slices, between which others are; what they changed counts."""

from collections.abc import Callable, Iterator

import pytest

from apportion.cluster.client import Client
from apportion.cluster.debouncer import Debouncer
from apportion.cluster.kinds import NODES, PODS, SLICES
from apportion.dra.groupmembership import LEAST
from apportion.settings import CycleSettings
from tests.clock import Ticking
from tests.observedcluster import ObservedCluster, request
from tests.quota.tenants import namespace, quota
from tests.scheduling.deciding import Deciding
from tests.scheduling.podgroups import gang
from tests.scheduling.sliced import between, until

PODS_OF_GROUP = 64
NODES_NEEDED = PODS_OF_GROUP // 4
ROOM = 3
"""Pods of a node that has devices for four."""


def ticking(nodes: int) -> ObservedCluster:
    """Return a group of pods that want a device each, on nodes of four, by a clock that ticks."""
    world = gang(PODS_OF_GROUP, nodes, count=1)
    world.clock = Ticking(step=0.001)
    return world


def held(world: ObservedCluster) -> int:
    """Return how many devices somebody holds, groups that are being decided included."""
    state = world.snapshot.state
    return sum(state.view(name).exclusive.bit_count() for name in state.names())


async def acting(world: ObservedCluster, client: Client, turns: Iterator[None]) -> None:
    """Let a cycle run, which is woken at each turn of the test, as by events."""
    debouncer = Debouncer(quiet=0, longest=0, clock=world.clock)

    def waking() -> Iterator[None]:
        for _ in turns:
            debouncer.wake()
            yield

    await between(world.cycle(client, CycleSettings(idle=3600), debouncer), waking())


@pytest.mark.slow
async def test_others_are_decided_while_a_group_is(silent: Client) -> None:
    """A claim that came later has its device before the group has any."""
    world = ticking(NODES_NEEDED + 1)
    seen: list[dict[str, str | None]] = []

    def late() -> Iterator[None]:
        world.wait_for("z", request("gpu"))
        yield from until(lambda: "z" in world.places())
        seen.append(world.places())
        yield from until(lambda: len(world.places()) == PODS_OF_GROUP + 1)

    await acting(world, silent, late())

    assert len(seen[0]) == 1


@pytest.mark.slow
async def test_who_would_take_what_a_group_needs_waits_for_its_end(silent: Client) -> None:
    """There are just enough devices, and the group came first."""
    world = ticking(NODES_NEEDED)
    world.wait_for("z", request("gpu"))

    await acting(world, silent, until(lambda: ("z", "NotAllocated") in world.warned))

    assert len(world.places()) == PODS_OF_GROUP
    assert "z" not in world.places()


@pytest.mark.slow
async def test_of_two_groups_that_need_more_than_half_one_is_served(silent: Client) -> None:
    """The other one is not begun before the first has ended, so they do not take turns in taking each other's devices."""
    world = ticking(NODES_NEEDED + 2)
    other = gang(PODS_OF_GROUP, 0, count=1, group="other", into=world)
    assert other is world

    await acting(world, silent, until(lambda: any("other" in name for name, _ in world.warned)))

    assert {name.split("-")[0] for name in world.places()} == {"g"}
    assert len(world.places()) == PODS_OF_GROUP


@pytest.mark.slow
async def test_a_pod_that_goes_away_between_slices_ends_the_decision(silent: Client) -> None:
    """Nobody of the group gets anything, and nothing stays held."""
    world = ticking(NODES_NEEDED)

    def leave() -> Iterator[None]:
        yield from until(lambda: held(world) > 8)
        world.gone(PODS, world.pod("g-p1", "g-c1"))
        yield from until(lambda: held(world) == 0)

    await acting(world, silent, leave())

    assert world.places() == {}


@pytest.mark.slow
@pytest.mark.parametrize("change", ["the node is cordoned", "pods were bound there", "its devices are gone"])
async def test_pods_are_placed_anew_where_a_node_changed_between_slices(silent: Client, change: str) -> None:
    """Two nodes are left over, and two that the group had chosen cannot be used."""
    world = ticking(NODES_NEEDED + 2)
    changed: list[str] = []

    def meddle() -> Iterator[None]:
        yield from until(lambda: held(world) > 12)
        state = world.snapshot.state
        changed.extend([name for name in state.names() if state.view(name).exclusive][:2])
        for name in changed:
            _CHANGES[change](world, name)
        yield from until(lambda: len(world.places()) == PODS_OF_GROUP)

    await acting(world, silent, meddle())

    assert len(changed) == 2
    assert not {*changed} & {*world.places().values()}


def _cordon(world: ObservedCluster, name: str) -> None:
    raw = world.node(name, cpu="64")
    world.see(NODES, {**raw, "spec": {"unschedulable": True}})


def _fill(world: ObservedCluster, name: str) -> None:
    containers = [{"name": "main", "resources": {"requests": {"cpu": "64"}}}]
    world.pod(f"fills-{name}", spec={"nodeName": name, "containers": containers})


def _empty(world: ObservedCluster, name: str) -> None:
    [uid] = [uid for uid, found in world.snapshot.slices.items() if found.name == f"{name}-devices"]
    world.gone(SLICES, {"metadata": {"name": f"{name}-devices", "uid": uid}})


_CHANGES: dict[str, Callable[[ObservedCluster, str], None]] = {
    "the node is cordoned": _cordon,
    "pods were bound there": _fill,
    "its devices are gone": _empty,
}


async def test_a_replica_that_acts_no_longer_holds_nothing_for_a_group(silent: Client) -> None:
    """It may act again later."""
    world = ticking(NODES_NEEDED)
    deciding = Deciding(world, silent)
    deciding.begin_groups()
    before = held(world)

    deciding.abandon()

    assert (before > 0, held(world), world.places()) == (True, 0, {})


@pytest.mark.slow
async def test_no_step_of_a_decision_looks_at_every_pod_more_than_a_few_times(unanswered: Client) -> None:
    """And most of them look at one."""
    for pods in (8, 512):  # the first world pays for what is compiled once
        _, *pieces = Deciding(gang(pods, pods // 4, count=1), unanswered).pieces()
    assert len(pieces) > 3 * pods
    assert max(pieces) < 100 * pods
    assert sorted(pieces)[len(pieces) * 9 // 10] < 600


@pytest.mark.slow
async def test_those_refused_beside_a_group_that_is_refused_are_asked_once_more(silent: Client) -> None:
    """The group held devices for a while, which nobody needs then."""
    world = ticking(NODES_NEEDED)
    for name in (f"n{number}" for number in range(NODES_NEEDED)):
        world.node(name, cpu=str(ROOM))
    world.device_class("the-same-devices")

    def late() -> Iterator[None]:
        yield from until(lambda: held(world) > 8)
        state = world.snapshot.state
        full = next(name for name in state.names() if state.view(name).exclusive.bit_count() == ROOM)
        field = {"key": "metadata.name", "operator": "In", "values": [full]}
        terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
        required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
        world.wait_for("z", request("the-same-devices"), {"affinity": required})
        yield from until(lambda: "z" in world.places())

    await acting(world, silent, late())

    assert ("z", "NotAllocated") in world.warned
    assert world.places().keys() == {"z"}


@pytest.mark.slow
async def test_those_refused_beside_more_than_a_group_gets_are_asked_once_more(silent: Client) -> None:
    """A quota leaves it half of what it had found and held, and nothing is reserved for anybody."""
    world = ticking(NODES_NEEDED)
    world.clock = Ticking(step=0.004)
    for name in ("gpu", "the-same-devices"):
        world.device_class(name)
    world.policy(classes=("gpu", "the-same-devices"), queue={"mostReserved": 0})
    namespace(world, "team", team="team")
    quota(world, "team", limit=PODS_OF_GROUP // 2)
    for number in range(PODS_OF_GROUP):
        raw = world.seen[PODS, "team", f"g-p{number}"]
        raw["metadata"]["annotations"][LEAST] = "8"
        world.see(PODS, raw)
    found: list[str] = []

    def late() -> Iterator[None]:
        yield from until(lambda: held(world) > PODS_OF_GROUP // 2 + 4)
        state = world.snapshot.state
        found.extend(name for name in state.names() if state.view(name).exclusive.bit_count() == 4)
        for name in found:
            field = {"key": "metadata.name", "operator": "In", "values": [name]}
            terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
            required = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
            world.wait_for(f"z-{name}", request("the-same-devices"), {"affinity": required})
        yield from until(lambda: len(world.places()) > PODS_OF_GROUP // 2)

    await acting(world, silent, late())

    [more] = world.places().keys() - {f"g-c{number}" for number in range(PODS_OF_GROUP)}
    assert (more, "NotAllocated") in world.warned
