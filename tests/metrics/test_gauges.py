"""The collector: frozen values, computed on the event loop in slices, by the replica that acts alone."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from apportion.cluster.client import Client
from apportion.cluster.kinds import PARTITIONS
from apportion.gauges.described import ALL
from apportion.gauges.gauges import SLICE, Gauges
from apportion.gauges.pendingclaims import PendingClaims
from apportion.scheduling.cycle import Cycle
from tests.cli.worlds import two_cards
from tests.clock import Ticking
from tests.observedcluster import GPU, ObservedCluster, request
from tests.quota.tenants import cluster as tenants
from tests.quota.tenants import quota, wait


def gauges_of(
    world: ObservedCluster,
    cycle: Cycle,
    *,
    acting: Callable[[], bool] = lambda: True,
    unanswered: Callable[[], int] = lambda: 2,
    clock: Callable[[], float] = lambda: 0.0,
) -> tuple[Gauges, CollectorRegistry]:
    """Return the collector over a world, and a registry that has it."""
    pending = PendingClaims(world.snapshot, lambda _: None, lambda: datetime(2026, 1, 1, tzinfo=UTC))
    found = Gauges(
        world.snapshot,
        pending,
        cycle.quotas,
        acting=acting,
        waiting=cycle.quotas.pending,
        reserved=lambda: cycle.reserved,
        unanswered=unanswered,
        clock=clock,
    )
    registry = CollectorRegistry()
    registry.register(found)
    return found, registry


async def test_what_changes_after_a_scrape_is_seen_by_the_next_one(silent: Client) -> None:
    """What is rendered is frozen: another thread may read it while the loop goes on."""
    world = two_cards()
    gauges, registry = gauges_of(world, world.cycle(silent))
    labels = {"driver": GPU, "model": "-", "device": "gpu"}

    def placeable() -> float | None:
        return registry.get_sample_value("apportion_devices_placeable", labels)

    assert placeable() is None
    await gauges.refresh()
    assert placeable() == 1
    assert registry.get_sample_value("apportion_allocated_claims") == 1
    assert registry.get_sample_value("apportion_unanswered_writes") == 2
    assert registry.get_sample_value("apportion_observed_objects", {"kind": "nodes"}) == 2
    world.allocate(world.claim("other"), "n2", "gpu-0")
    assert placeable() == 1
    await gauges.refresh()
    assert placeable() == 0


async def test_partitions_are_counted_by_phase(silent: Client) -> None:
    """One whose phase changes leaves the former one; one of which no agent has said anything is pending."""
    world = two_cards()
    gauges, registry = gauges_of(world, world.cycle(silent))
    spec = {
        "nodeName": "n1",
        "driver": GPU,
        "pool": "n1",
        "device": "gpu-0-mig-1g10gb-19-3",
        "parent": "gpu-0",
        "profile": "1g.10gb",
        "origin": "Claim",
    }
    raw = world.see(PARTITIONS, {"metadata": {"name": "p"}, "spec": spec})

    async def phases() -> list[float | None]:
        await gauges.refresh()
        return [
            registry.get_sample_value("apportion_partitions", {"driver": GPU, "phase": phase})
            for phase in ("Pending", "Ready")
        ]

    assert await phases() == [1, None]
    world.see(PARTITIONS, raw | {"status": {"phase": "Ready"}})
    assert await phases() == [0, 1]
    world.gone(PARTITIONS, raw)
    assert await phases() == [0, 0]


async def test_quotas_are_shown_with_what_they_use_borrow_and_wait_for(silent: Client) -> None:
    """In units of the resource; who waits for devices has no resource."""
    world = tenants(2, "a", "b")
    quota(world, "a", guaranteed=1, limit=2)
    quota(world, "b", guaranteed=1)
    cycle = world.cycle(silent)
    for count in range(3):
        wait(world, "a", f"a{count}", at=count)
    wait(world, "b", "b0", at=9)
    for _ in range(3):
        cycle.once()
    gauges, registry = gauges_of(world, cycle)
    await gauges.refresh()

    def value(name: str, owner: str, resource: str = "gpus") -> float | None:
        return registry.get_sample_value(f"apportion_quota_{name}", {"quota": owner, "resource": resource})

    used = value("used", "a"), value("used", "b")
    assert used == (1, 1)
    assert (value("guaranteed", "a"), value("limit", "a"), value("limit", "b")) == (1, 2, None)
    assert (value("borrowed", "a"), value("pending_demands", "a", "")) == (0, 2)
    assert registry.get_sample_value("apportion_quota_share_ratio", {"quota": "a"}) == 0


async def test_an_amount_beyond_all_numbers_takes_no_gauge_away(silent: Client) -> None:
    """The API server stores a capacity of 1e400, and a quota counts it once a claim has the device."""
    world = tenants(1, "team")
    device = {"name": "gpu-0", "capacity": {"memory": {"value": "1e400"}}}
    world.slice("n1", "n1-devices", {"devices": [device]}, 1)
    quota(world, "team", {"name": "memory", "deviceClass": "gpu", "capacity": "memory", "limit": "1e400"})
    world.allocate(world.claim("c"), "n1", "gpu-0")
    cycle = world.cycle(silent)
    cycle.once()
    gauges, registry = gauges_of(world, cycle)
    await gauges.refresh()
    of = {"quota": "team", "resource": "memory"}
    for name in ("used", "limit", "borrowed"):
        assert (registry.get_sample_value(f"apportion_quota_{name}", of) or 0) > 1e290
    assert registry.get_sample_value("apportion_allocated_claims") == 1


async def test_what_comes_between_two_samples_takes_nothing_away(silent: Client) -> None:
    """A Partition in a phase that none was in: the table that is read grows, and all gauges were gone until the next scrape."""
    world = two_cards()
    clock = Ticking(step=SLICE)
    gauges, registry = gauges_of(world, world.cycle(silent), clock=clock)
    made: list[str] = []

    async def partitions() -> None:
        while True:
            made.append(f"p{len(made)}")
            spec = {
                "nodeName": "n1",
                "driver": f"{made[-1]}.example.com",
                "pool": "n1",
                "device": "gpu-0-mig",
            }
            spec |= {"parent": "gpu-0", "profile": "1g.10gb", "origin": "Claim"}
            world.see(PARTITIONS, {"metadata": {"name": made[-1]}, "spec": spec})
            await asyncio.sleep(0)

    other = asyncio.create_task(partitions())
    await gauges.refresh()
    other.cancel()
    assert len(made) > 1
    assert registry.get_sample_value("apportion_observed_objects", {"kind": "nodes"}) == 2


async def test_others_run_while_a_large_cluster_is_counted(silent: Client) -> None:
    """After each few milliseconds of work, by the clock."""
    world = ObservedCluster()
    world.device_class("gpu")
    for number in range(100):
        world.node(f"n{number}")
        world.wait_for(f"c{number}", request("gpu"))
    clock = Ticking(step=SLICE / 5)
    gauges, _ = gauges_of(world, world.cycle(silent), clock=clock)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(count())
    began = clock.now
    await gauges.refresh()
    other.cancel()
    assert turns >= (clock.now - began) / (2 * SLICE) > 30


async def test_others_run_while_many_values_are_put_together(
    silent: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All were, in one piece, once they had been counted."""
    world = two_cards()
    spec = {"nodeName": "n1", "pool": "n1", "device": "gpu-0-mig", "parent": "gpu-0", "profile": "1g.10gb"}
    for number in range(200):
        own = spec | {"driver": f"d{number}.example.com", "origin": "Claim"}
        world.see(PARTITIONS, {"metadata": {"name": f"p{number}"}, "spec": own})
    gauges, registry = gauges_of(world, world.cycle(silent), clock=Ticking(step=SLICE / 5))
    turns, values = 0, Counter[int]()
    add = GaugeMetricFamily.add_metric

    def counted(*given: Any) -> None:
        values[turns] += 1
        add(*given)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(GaugeMetricFamily, "add_metric", counted)
    other = asyncio.create_task(count())
    await gauges.refresh()
    other.cancel()
    assert values.total() > 200
    assert max(values.values()) <= 6
    of = {"driver": "d7.example.com", "phase": "Pending"}
    assert registry.get_sample_value("apportion_partitions", of) == 1


async def test_a_replica_that_does_not_act_shows_names_and_no_values(silent: Client) -> None:
    """Sums over both replicas count everything once; what was shown before is gone."""
    world = two_cards()
    acts = [True, False]
    gauges, registry = gauges_of(world, world.cycle(silent), acting=lambda: acts.pop(0))
    await gauges.refresh()
    assert b'model="-"' in generate_latest(registry)
    await gauges.refresh()
    text = generate_latest(registry).decode()
    assert all(f"# HELP {each.name} {each.text}" in text for each in ALL)
    assert [line for line in text.splitlines() if not line.startswith("#")] == []


async def test_a_defect_takes_only_these_gauges_away(silent: Client) -> None:
    """Counters and histograms are served all the same; a value of the former scrape would be wrong."""
    world = two_cards()
    broken = [True, False]

    def unanswered() -> int:
        if broken.pop():
            raise KeyError("a defect")
        return 0

    gauges, registry = gauges_of(world, world.cycle(silent), unanswered=unanswered)
    await gauges.refresh()
    assert registry.get_sample_value("apportion_allocated_claims") == 1
    await gauges.refresh()
    assert registry.get_sample_value("apportion_allocated_claims") is None
