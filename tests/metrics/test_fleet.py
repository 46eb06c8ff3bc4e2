"""What Prometheus sees of devices: as `apportion free` counts them, kept in step node by node."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings

from apportion.allocator.facts.host import HostResources
from apportion.cli.answers.largest import largest
from apportion.cluster.client import Client
from apportion.cluster.kinds import NODES, SLICES
from apportion.gauges import described
from apportion.gauges.fleet import Fleet
from apportion.gauges.pendingclaims import PendingClaims
from tests.cli.test_free import build, cards, hold
from tests.cli.worlds import Cluster, two_cards
from tests.metrics.gaugesof import by_device, read
from tests.observedcluster import GPU, request

Json = dict[str, Any]
NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cards())
def test_kinds_are_counted_as_by_apportion_free_also_where_only_changes_are_read(drawn: list[Json]) -> None:
    """Before anything is held, with what is held, and when it is not held any more."""
    cluster = build(drawn)
    fleet = Fleet(cluster.snapshot)
    steps = (
        lambda: None,
        lambda: hold(cluster, drawn),
        lambda: cluster.gone(SLICES, cluster.objects["ResourceSlice", "", "pool-0-devices"]),
    )
    for change in steps:
        change()
        cluster.snapshot.state.settle()
        values, known = read(fleet), largest(cluster.snapshot.state)
        assert values(described.PLACEABLE) == {tuple(kind): each.left for kind, each in known.items()}
        assert values(described.CAPACITY) == {tuple(kind): each.most for kind, each in known.items()}


def test_only_nodes_that_changed_are_read_anew() -> None:
    """A scrape of a cluster in which little happens costs little."""
    cluster = two_cards()
    fleet = Fleet(cluster.snapshot)
    assert len([*fleet.steps()]) == 2
    assert [*fleet.steps()] == []
    cluster.allocate(cluster.claim("other"), "n2", "gpu-0")
    assert len([*fleet.steps()]) == 1
    assert by_device(read(fleet)(described.PLACEABLE))["gpu"] == 0


async def test_devices_that_few_can_get_are_stranded_with_the_cause(silent: Client) -> None:
    """A cordoned node, a taint, and less cpu than any recent pod asked for; what is held is not stranded."""
    cluster = Cluster()
    for name in ("cordoned", "full", "tainted", "usual"):
        cluster.node(name, cpu="1" if name == "full" else "8")
        cluster.card(name, taints=[{"key": "sick", "effect": "NoSchedule"}] if name == "tainted" else ())
    cluster.device_class("gpu", f'device.attributes["{GPU}"].type == "gpu"')
    raw = cluster.node("cordoned")
    cluster.see(NODES, raw | {"spec": {"unschedulable": True}})
    fleet = Fleet(cluster.snapshot)

    def stranded(cause: str) -> dict[str, float]:
        rows = read(fleet)(described.STRANDED)
        return by_device({labels: value for labels, value in rows.items() if labels[3] == cause})

    assert stranded("cordoned") == {"gpu": 1, "1g.10gb": 7, "3g.40gb": 2, "7g.80gb": 1}
    assert stranded("tainted") == {"gpu": 0, "1g.10gb": 7, "3g.40gb": 2, "7g.80gb": 1}
    assert stranded("host")["gpu"] == 0
    cluster.wait_for(
        "two-cores",
        request("gpu"),
        {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]},
    )
    cluster.cycle(silent).once()
    [(_, asked, _)] = cluster.snapshot.state.learned.typical
    assert asked == HostResources(2000, 0)
    assert stranded("host")["gpu"] == 1
    assert by_device(read(fleet)(described.PLACEABLE))["gpu"] == 2


def test_free_slices_that_the_largest_device_leaves_are_scattered() -> None:
    """An empty card is one piece; a seventh in its middle leaves seven slices, of which a half is the largest piece."""
    cluster = two_cards()
    model = (GPU, "-")
    fleet = Fleet(cluster.snapshot)
    before = read(fleet)
    assert (before(described.SLICES)[model], before(described.SLICES_FREE)[model]) == (16, 12)
    assert before(described.SLICES_SCATTERED)[model] == 0
    cluster.allocate(cluster.claim("other"), "n2", "gpu-0-mig-1g10gb-19-3")
    after = read(fleet)
    assert after(described.SLICES_FREE)[model] == 11
    assert after(described.SLICES_SCATTERED)[model] == 3


def test_a_device_of_several_nodes_counts_once_also_when_its_node_goes() -> None:
    """It moves to another node that can use it, and changes of that node lose nothing."""
    cluster = Cluster()
    for name in ("n1", "n2", "n3"):
        raw = cluster.node(name)
    pool = {"name": "net", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "allNodes": True, "pool": pool, "devices": [{"name": "a"}, {"name": "b"}]}
    cluster.see(SLICES, {"metadata": {"name": "net"}, "spec": spec})
    fleet = Fleet(cluster.snapshot)

    def counted() -> float | None:
        return read(fleet)(described.PLACEABLE).get((GPU, "-", "device"))

    assert counted() == 2
    cluster.gone(NODES, cluster.objects["Node", "", "n1"])
    assert counted() == 2
    cluster.see(NODES, raw | {"metadata": raw["metadata"] | {"labels": {"zone": "a"}}})
    assert counted() == 2
    for name in ("n2", "n3"):
        cluster.gone(NODES, cluster.objects["Node", "", name])
    assert counted() is None


def test_steps_that_are_abandoned_lose_nothing() -> None:
    """A scrape that ends early leaves the rest to the next one."""
    cluster = two_cards()
    cluster.wait_for("pending", request("gpu"))
    fleet = Fleet(cluster.snapshot)
    next(fleet.steps())
    assert by_device(read(fleet)(described.CAPACITY))["gpu"] == 2
    pending = PendingClaims(cluster.snapshot, lambda _: None, lambda: NOW)
    next(pending.steps())
    assert read(pending)(described.QUEUE) == {("Undecided",): 1}


def test_taints_of_whole_devices_are_counted_and_foreign_keys_are_one_series() -> None:
    """Anybody may make a DeviceTaintRule with a key of its own: that must not make series without end."""
    cluster = Cluster()
    cluster.node("n1")
    keys = ("apportion.dev/guard", "apportion.dev/sick", "example.com/a", "example.com/b")
    for number, key in enumerate(keys):
        taints = [{"key": key, "effect": "NoSchedule"}]
        device = {"name": f"gpu-{number}", "attributes": {"type": {"string": "gpu"}}, "taints": taints}
        cluster.slice("n1", f"s{number}", {"devices": [device]}, 4)
    found = read(Fleet(cluster.snapshot))(described.TAINTED)
    assert found == {
        (GPU, "-", "apportion.dev/sick", "NoSchedule"): 1,
        (GPU, "-", "other", "NoSchedule"): 2,
    }
