"""What is derived from the observed objects depends on what these are, and not on how they came to be known.

Objects of all kinds come, change, go and are made anew under their names; watches are late, each by itself; kinds are listed anew; answers to writes come
ahead of watches, or late; etcd is restored; what is decided is assumed, written or given up. What is remembered by design is left out: ended allocations, what
a device consumed when it was taken, the last readable version of an object, what a device counted when it was first charged.
"""

import copy
from collections.abc import Iterator, Mapping
from functools import cache
from random import Random
from typing import Any

import pytest

from apportion.allocator.changelog import ChangeLog
from apportion.allocator.facts.taintrules import TaintRules
from apportion.allocator.finished import finished
from apportion.allocator.node.nodeview import NodeView
from apportion.allocator.state import State
from apportion.api.quota import AcceleratorQuota
from apportion.cel import Programs
from apportion.cluster.kinds import CLAIMS, CLASSES, PARTITIONS, PODS, SLICES
from apportion.cluster.publishedpartition import PublishedPartition
from apportion.cluster.snapshot import Snapshot
from apportion.dra.allocation import Allocation, DeviceResult
from apportion.dra.device import Device, DeviceId
from apportion.dra.selection import NodeSelector
from apportion.dra.selectionindex import SelectionIndex
from apportion.dra.slice import Slice
from apportion.scheduling.clearing.clearing import Overlaps, UnusedAllocations
from apportion.scheduling.clearing.goneconsumers import GoneConsumers
from apportion.scheduling.demands.extendedresources import ExtendedResources
from apportion.scheduling.demands.groupeddemands import GroupedDemands
from apportion.scheduling.demands.waitingqueue import WaitingQueue
from apportion.scheduling.quota.charging import Charging
from apportion.scheduling.room.neighbours import Neighbours
from apportion.scheduling.room.noderoom import NodeRoom, promised_node
from apportion.scheduling.room.placedpods import PlacedPods
from apportion.scheduling.writing.gates import Gates
from tests.clock import Clock
from tests.cluster.randomobjects import DEVICES, NODES, change
from tests.cluster.watchedserver import KINDS, Backup, WatchedServer
from tests.observedcluster import GPU, ObservedCluster
from tests.scheduling.openedgates import opened

ROUNDS = 40
STEPS = 90
MANAGER = "apportion-operator"
LEFT_OUT = {
    "_assignment", "_cut_off", "_hidden", "_ordered", "_pool_nodes", "_slice_views", "_templates", "changes", "epoch", "names", "new_selections", "version",
}  # fmt: skip
"""Fields of indexes that remember by design, or that are caches or counters of changes."""


@cache
def programs() -> Programs:
    return Programs()


class Followers:
    """Those that follow a snapshot change by change."""

    def __init__(self, snapshot: Snapshot) -> None:
        clock = Clock()
        self._snapshot = snapshot
        self._queue, self._groups = WaitingQueue(snapshot), GroupedDemands(snapshot)
        self._gates, self._overlaps = Gates(snapshot), Overlaps(snapshot)
        self._room, self._charging = NodeRoom(snapshot), Charging(snapshot, clock)
        placed = PlacedPods(
            snapshot, lambda pod: pod.node or promised_node(pod, snapshot), self._room.doubted
        )
        self._neighbours = Neighbours(snapshot, placed, self._room.capacity)
        self._unused = UnusedAllocations(snapshot, clock, manager=MANAGER)
        self._gone = GoneConsumers(snapshot, clock, manager=MANAGER)
        self._extended = ExtendedResources(snapshot, clock)

    def look(self) -> dict[str, object]:
        """Return what each of them says now."""
        pods = self._snapshot.pods.values()
        demands, unservable = self._queue.demands()
        self._groups.follow(*self._queue.news())
        for _ in (*self._room.steps(), *self._gone.steps()):
            pass
        self._charging.follow()
        capacity, charged = self._room.capacity, self._charging.usage.charged()
        return {
            "demands": demands,
            "unservable": sorted(map(repr, unservable)),
            "groups": {repr(each) for each in finished(self._groups.queue(()))},
            "gates": {pod.uid for pod in opened(self._gates)},
            "promised": {name: capacity.used(name) for name in capacity.nodes},
            "taken": dict(capacity.taken),
            "fitting": {pod.uid: capacity.fitting([pod]) for pod in pods},
            "ruled out": {pod.uid: [*self._neighbours.ruled_out(pod)] for pod in pods},
            "overlaps": self._overlaps.find(),
            "charged": {key: (use.name if use else "", len(found)) for key, use, found in charged},
            "unused": {claim.uid for claim, _ in finished(self._unused.due())},
            "gone": {claim.uid for claim, _ in self._gone._outdated.items()},
            "templates": self._extended.templates(),
        }


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_what_is_derived_is_the_same_however_it_was_seen(seed: int) -> None:
    """The indexes, what the allocator knows, and all that follows changes."""
    rng = Random(seed)  # noqa: S311 - a test that can be repeated
    snapshot = Snapshot(State(programs=programs()), wake=lambda: None)
    server, followers = WatchedServer(snapshot), Followers(snapshot)
    backup: Backup | None = None
    for _ in range(STEPS):
        backup = step(rng, server, snapshot, backup)
        assert held(snapshot) == wanted(snapshot)
        if rng.random() < 0.25:
            same(followers.look(), Followers(snapshot).look())
    settle(rng, server, snapshot)
    fresh = seen_at_once(server)
    same(followers.look(), Followers(snapshot).look())
    same(dict(derived(snapshot)), dict(derived(fresh)))
    for name in snapshot.state.names():
        devices, known = free(snapshot.state.view(name)), free(fresh.state.view(name))
        assert devices.keys() == known.keys()
        # What was withdrawn while it was held consumes what it did then.
        assert all(known[device] for device, is_free in devices.items() if is_free), name


def step(rng: Random, server: WatchedServer, snapshot: Snapshot, backup: Backup | None) -> Backup | None:
    """Let something happen; returns the backup of the server that there is then."""
    kind = rng.choice(KINDS)
    match rng.choices(("change", "tell", "list", "decide", "backup"), (60, 22, 5, 12, 1))[0]:
        case "change":
            changed = change(rng, server)
            if changed[0] in (CLAIMS, CLASSES, PARTITIONS, PODS) and rng.random() < 0.25:
                server.answer(*changed)
            if rng.random() < 0.8:
                server.deliver(rng)
        case "tell":
            server.tell(kind, rng.randint(1, 4))
        case "list":
            server.list(kind)
        case "decide":
            decide(rng, snapshot)
        case _ if backup is None:
            return server.backup()
        case _:
            server.restore(backup)
            return None
    return backup


def decide(rng: Random, snapshot: Snapshot) -> None:
    """Let a claim be given a device, or what it was given be written or given up."""
    for claim in rng.sample([*snapshot.claims.values()], min(1, len(snapshot.claims))):
        assumption = snapshot.assumed.get(claim.uid)
        if assumption is None and claim.allocation is None:
            node = rng.choice(NODES)
            device = DeviceResult("gpu", DeviceId(GPU, node, rng.choice(DEVICES)))
            snapshot.assume(claim, Allocation((device,), node_selector=NodeSelector.of_name(node)))
        elif assumption is not None and assumption.depends is None:
            snapshot.sent(assumption, claim.version)
        elif assumption is not None:
            assumption.confirmed = rng.random() < 0.5
            if not assumption.confirmed:
                snapshot.forget(assumption)


def settle(rng: Random, server: WatchedServer, snapshot: Snapshot) -> None:
    """Let all be told and answered, and nothing be left of what is remembered by design."""
    while server.deliver(rng):
        pass
    for kind in rng.sample(KINDS, len(KINDS)):
        server.tell(kind)
        server.list(kind)
    for broken in tuple(snapshot.broken.values()):
        server.drop(broken.kind, (broken.namespace, broken.name))
    seen: set[DeviceId] = set()
    for found in tuple(snapshot.slices.values()):
        devices = {device.id for device in found.devices}
        if devices & seen:  # while a pool is published anew the slice that was seen last is shown
            server.drop(SLICES, ("", found.name))
        else:
            seen |= devices
    for kind in rng.sample(KINDS, len(KINDS)):
        server.tell(kind)
    for claim in snapshot.claims.values():
        assumption = snapshot.assumed.get(claim.uid)
        if assumption is not None:
            snapshot.forget(assumption)
    assert not len(snapshot.assumed)
    for key in snapshot.state.held():
        if key.startswith("ended:"):
            snapshot.state.release(key)


def seen_at_once(server: WatchedServer) -> Snapshot:
    """Return a snapshot that has seen nothing but the objects as they are."""
    fresh = Snapshot(State(programs=programs()), wake=lambda: None)
    for kind in KINDS:
        for raw in server.objects[kind].values():
            fresh.observe(kind, "ADDED", copy.deepcopy(raw))
    return fresh


def held(snapshot: Snapshot) -> dict[str, tuple[DeviceResult, ...]]:
    """Return what the allocator holds, by key."""
    return dict(snapshot.state.held())


def wanted(snapshot: Snapshot) -> dict[str, tuple[DeviceResult, ...]]:
    """Return what it should hold: what claims have or are about to have, and what pods use of former allocations."""
    found = {claim.uid: snapshot.allocation(claim) for claim in snapshot.claims.values()}
    found |= {f"ended:{claim.uid}": claim.allocation for claim, _ in snapshot.ended}
    rows = {key: allocation.results for key, allocation in found.items() if allocation is not None}
    without_admin = {key: tuple(each for each in row if not each.admin_access) for key, row in rows.items()}
    return {key: row for key, row in without_admin.items() if row}


def derived(snapshot: Snapshot) -> Iterator[tuple[str, object]]:
    """Yield all that is derived, by name."""
    state = snapshot.state
    for index in (
        snapshot.claim_index,
        snapshot.pod_index,
        snapshot.devices,
        snapshot.devices.names,
        snapshot.prepared,
        snapshot.volumes,
        snapshot.quota_index,
        state._inventory,
    ):
        for name, value in vars(index).items():
            if name not in LEFT_OUT:
                yield f"{type(index).__name__}.{name}", plain(value)
    yield "users", {key: snapshot.pod_index.users(*key) for key in snapshot.pod_index._users}
    yield "quotas", plain(vars_of(snapshot.quota_index.assignment))
    yield "managed", plain(vars_of(snapshot.managed))
    yield "classes", plain(state.classes)
    yield "nodes", {name: snapshot.node(name) for name in state.names()}
    yield "hosts", plain(state.hosts.left)
    yield "held", held(snapshot)


def vars_of(value: Any) -> dict[str, object]:
    """Return the fields of a value."""
    return {name: getattr(value, name) for name in value.__slots__}


def plain(value: Any) -> Any:
    """Return a value without what is empty in it, in a form that can be compared."""
    match value:
        case Slice():
            return value.uid, value.version
        case AcceleratorQuota():
            return value.metadata.uid, value.spec  # its index keeps the status of when the spec changed last
        case TaintRules():
            return plain(vars(value))
        case SelectionIndex():
            entries = {key: entries for key, (_, entries) in value._entries.items()}
            return [{entry: {*keys.values()} for entry, keys in value._keys.items()}, entries]
        case Mapping():
            rows = {key: plain(each) for key, each in value.items()}
            return {key: each for key, each in rows.items() if each}
        case set() | frozenset():
            return frozenset(value)
        case Device() | PublishedPartition():
            return repr(value)
        case tuple():
            return tuple(map(plain, value))
        case ChangeLog():
            return None
        case _:
            return value


def free(view: NodeView) -> dict[DeviceId, bool]:
    """Return the devices of a node, and whether each is free."""
    return {device.id: bool(view.open >> index & 1) for index, device in enumerate(view.devices)}


def same(first: Mapping[str, object], second: Mapping[str, object]) -> None:
    """Check that two readings are equal, part by part."""
    for name, value in first.items():
        assert value == second[name], name


def test_nothing_is_kept_of_nodes_whose_pods_have_ended() -> None:
    """Machines of a cloud come and go for years, each under a name of its own."""
    world = ObservedCluster()
    for number in range(3):
        pod = world.pod(f"p{number}", spec={"nodeName": f"n{number}", "priority": number})
        assert world.snapshot.pod_index.load(f"n{number}")["pods"] == 1
        world.see(PODS, pod | {"status": {"phase": "Succeeded"}})
        assert not world.snapshot.pod_index.load(f"n{number}")
    assert not world.snapshot.pod_index._load
    assert not world.snapshot.pod_index._load_by_priority
