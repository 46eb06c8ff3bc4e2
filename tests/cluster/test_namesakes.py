"""Objects that are deleted and made anew under their names: the one that is there counts, however late watches and answers to writes are."""

from random import Random

import pytest

from apportion.allocator.state import State
from apportion.cluster.kinds import CLASSES, PARTITIONS, ResourceKind
from apportion.cluster.snapshot import Snapshot
from apportion.dra.device import DeviceId
from tests.cluster.randomobjects import NAMES, change
from tests.cluster.test_derived_state import derived, programs, same, seen_at_once, settle
from tests.cluster.watchedserver import WatchedServer
from tests.observedcluster import GPU, Json

ROUNDS = 100
STEPS = 50


@pytest.mark.slow
@pytest.mark.parametrize("kind", NAMES, ids=lambda kind: kind.plural)
def test_of_namesakes_the_one_that_is_there_counts_in_whatever_order_they_were_seen(
    kind: ResourceKind,
) -> None:
    """Indexes by name, and what the allocator knows by name, are those of the objects as they are."""
    for seed in range(ROUNDS):
        rng = Random(seed)  # noqa: S311 - a test that can be repeated
        snapshot = Snapshot(State(programs=programs()), wake=lambda: None)
        server = WatchedServer(snapshot)
        for _ in range(STEPS):
            match rng.choices(("change", "answer", "tell", "list"), (50, 20, 20, 10))[0]:
                case "change":
                    changed = change(rng, server, kind)
                    if rng.random() < 0.7:
                        server.answer(*changed)
                case "answer":
                    server.deliver(rng)
                case "tell":
                    server.tell(kind, rng.randint(1, 4))
                case _:
                    server.list(kind)
        settle(rng, server, snapshot)
        same(dict(derived(snapshot)), dict(derived(seen_at_once(server))))


ORDERS = {
    "late answer": (("ADDED", "new"), ("MODIFIED", "old"), ("DELETED", "old")),
    "late deletion": (("ADDED", "old"), ("ADDED", "new"), ("DELETED", "old")),
    "early answer": (("ADDED", "old"), ("MODIFIED", "new"), ("DELETED", "old"), ("ADDED", "new")),
    "repeated": (
        ("ADDED", "old"),
        ("DELETED", "old"),
        ("ADDED", "old"),
        ("ADDED", "new"),
        ("ADDED", "old"),
    ),
    "repeated, unseen": (("ADDED", "old"), ("ADDED", "new"), ("ADDED", "old")),
    "never shown": (("MODIFIED", "old"), ("ADDED", "new"), ("DELETED", "old")),
}
"""Events of two namesakes, some of them repeated; MODIFIED is the answer to a write."""
VERSIONS = {"old": "1", "new": "2"}


def an_object(kind: ResourceKind, uid: str) -> Json:
    metadata = {"name": "n1-gpu-0-mig-a-0", "uid": uid, "resourceVersion": VERSIONS[uid]}
    spec = {} if kind == CLASSES else {
        "nodeName": "n1", "driver": GPU, "pool": "n1", "device": "gpu-0-mig-a-0", "parent": "gpu-0", "profile": "1g.10gb",
        "origin": "Claim",
    }  # fmt: skip
    return {"metadata": metadata, "spec": spec}


@pytest.mark.parametrize("kind", [CLASSES, PARTITIONS], ids=lambda kind: kind.plural)
@pytest.mark.parametrize("order", ORDERS)
def test_an_object_that_was_made_anew_is_known_by_its_name(kind: ResourceKind, order: str) -> None:
    """Also where an answer about the former one comes after it, or one about itself before the former one's deletion."""
    snapshot = Snapshot(State(programs=programs()), wake=lambda: None)
    for event, uid in ORDERS[order]:
        snapshot.observe(kind, event, an_object(kind, uid))
    if kind == CLASSES:
        assert [each.uid for each in snapshot.state.classes.values()] == ["new"]
    else:
        found = snapshot.devices.partition(DeviceId(GPU, "n1", "gpu-0-mig-a-0"))
        assert found is not None
        assert found.metadata.uid == "new"
    assert not snapshot.answered(kind)


def test_an_addition_that_is_repeated_after_the_deletion_brings_nothing_back() -> None:
    """Its version is not later than that of the deletion; one that a restored history adds has a later one."""
    snapshot, made = Snapshot(State(), wake=lambda: None), an_object(CLASSES, "old")
    gone = {"metadata": {**made["metadata"], "resourceVersion": "2"}}
    for event, raw in (("ADDED", made), ("DELETED", gone), ("ADDED", made)):
        snapshot.observe(CLASSES, event, raw)
    assert not snapshot.classes
    later = {**made, "metadata": {**made["metadata"], "resourceVersion": "3"}}
    snapshot.observe(CLASSES, "ADDED", later)
    assert snapshot.classes.keys() == {"old"}
