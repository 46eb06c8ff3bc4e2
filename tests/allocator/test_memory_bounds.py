"""A state that lives for months keeps the current facts and a bounded number of former ones."""

import gc
import random
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest

from apportion.allocator.allocate import allocate, decide
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.memo import Topic
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.cel import Programs
from apportion.dra import claim as claims
from apportion.dra import device as devices
from apportion.dra import slice as slices
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.reading import Sharing
from tests.allocator.builders import A, amounts, claim, cluster, device, device_request, device_slice

TABLES = (
    "closeness.colouring",
    "closeness.distances",
    "equivalence.nodeclasses",
    "equivalence.nodestate",
    "facts.host",
    "node.countergroup",
    "node.counters",
    "node.nodeclass",
    "node.nodeview",
    "node.template",
    "pricing.demandhistory",
    "pricing.freeshares",
    "pricing.freeworth",
    "pricing.prices",
    "pricing.scarcity",
    "pricing.shareprices",
    "pricing.stranding",
    "ranking.querycache",
    "ranking.rankednodes",
    "ranking.rankedstates",
    "ranking.ranking",
    "rules.pools",
    "rules.queries",
    "rules.selectors",
    "rules.slices",
    "search.singleplan",
    "strategies.learned",
    "strategies.leastfragmentation",
    "strategies.pricedplans",
    "strategies.shareplan",
    "strategies.shares",
    "strategies.wholedevices",
)
"""Modules of the allocator that keep bounded tables."""
MODULES = tuple(import_module(f"apportion.allocator.{name}") for name in TABLES)
FEW = 16
NODES = 4


@pytest.fixture(autouse=True)
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lower every bound, so that a short run reaches it."""
    for module in MODULES:
        for name in limits(module):
            monkeypatch.setattr(module, name, FEW)
        for found in vars(module).values():
            if isinstance(found, Topic):
                monkeypatch.setattr(found, "most", FEW)
    monkeypatch.setattr("apportion.allocator.state.LOG_PER_NODE", 1)
    for module in (claims, devices, slices):
        for found in vars(module).values():
            if isinstance(found, Sharing):
                monkeypatch.setattr(found, "_most", FEW)


def limits(module: ModuleType) -> list[str]:
    """Return the names of a module's bounds."""
    return [name for name in vars(module) if name.startswith(("MOST", "LEAST"))]


def test_every_module_with_tables_has_a_bound_to_lower() -> None:
    """Without this check a renamed bound would make the next test ineffective."""
    assert all(limits(module) for module in MODULES)


def chip(number: int, rng: random.Random) -> list[dict[str, Any]]:
    """Return the parts of a chip in this generation, with new sizes, counters and attribute values."""
    rows = []
    for part in range(4):
        row = device(f"chip-{part}-{number}", "part", {"units": rng.randint(1, 3)}, "chip")
        row["attributes"] |= {
            "uuid": {"string": f"UUID-{number}-{part}"},
            "firmware": {"string": f"{number}"},
            f"odd-{number % 50}": {"int": rng.randint(0, 9)},
        }
        rows.append(row)
    return rows


class ChangingCluster:
    """Nodes, classes and claims that are replaced in turns; every name and value that can be new is new."""

    def __init__(self) -> None:
        self.rng = random.Random(7)  # noqa: S311 - reproducible
        self.state = State(programs=Programs(FEW))
        self.state.put_class(DeviceClass.from_json({"metadata": {"name": "any"}, "spec": {}}))
        self.nodes: list[str] = []
        self.held: list[str] = []
        self.number = 0
        self.placed = 0

    def turn(self) -> None:
        """Replace one node, republish one, allocate and release some claims."""
        self.number += 1
        number, rng, known = self.number, self.rng, self.state
        if len(self.nodes) >= NODES:
            gone = self.nodes.pop(0)
            known.drop_node(gone)
            known.drop_slice(f"{gone}-counters")
            known.drop_slice(f"{gone}-devices")
        name = f"node-{number}"
        self.nodes.append(name)
        known.put_node(name, {"zone": f"{number}"})
        sets = [{"name": "chip", "counters": amounts(units=rng.randint(4, 9))}]
        known.put_slice(device_slice(f"{name}-counters", name, count=2, sharedCounters=sets))
        for where in (name, rng.choice(self.nodes)):
            known.put_slice(device_slice(f"{where}-devices", where, chip(number, rng), count=2))
        texts = (
            f'{A}.kind == "part" && "{number}" != ""',
            f'{A}.firmware != "{number - 2}"',
            f'{A}.uuid != "UUID-{number}-1"',
        )
        for position, text in enumerate(texts):
            key = f"claim-{number}-{position}"
            asked = device_request(
                kind="part", count=rng.randint(1, 2), selectors=[{"cel": {"expression": text}}]
            )
            found = allocate(known, Demand((claim(key, asked),)), Terms(rng.choice(list(Strategy))))
            if isinstance(found, Decision):
                self.placed += 1
                known.hold(key, found.allocations[0].results)
                self.held.append(key)
        while len(self.held) > NODES:
            known.release(self.held.pop(0))

    def fewest_objects(self, turns: int) -> int:
        """Run turns; return the lowest number of Python objects, counted after each tenth of them."""
        counts = []
        for turn in range(turns):
            self.turn()
            if turn % (turns // 10) == 0:
                gc.collect()
                counts.append(len(gc.get_objects()))
        return min(counts)


@pytest.mark.slow
def test_memory_does_not_grow_while_all_objects_are_replaced() -> None:
    """Hundreds of names, UUIDs, values, layouts and selectors pass; a few exist at a time."""
    cluster = ChangingCluster()
    cluster.fewest_objects(60)
    before = cluster.fewest_objects(60)
    cluster.fewest_objects(60)
    after = cluster.fewest_objects(60)

    assert cluster.placed > 180
    assert after < before * 1.02, f"{before} objects at first, {after} later"


def test_results_of_selectors_have_a_bound_for_all_classes_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster of unlike nodes has a class for each; thousands of them, times thousands of selectors, were gigabytes."""
    nodes, texts, most = 30, 20, 60
    monkeypatch.setattr("apportion.allocator.equivalence.nodeclasses.MOST_COLUMNS", nodes)
    monkeypatch.setattr("apportion.allocator.node.nodeclass.MOST_TEXTS", 1000)
    monkeypatch.setattr("apportion.allocator.node.nodeclass.MOST_KEPT", most)
    monkeypatch.setattr("apportion.allocator.node.nodeclass.LEAST_TEXTS", 1)
    rows = {
        f"n{number}": device("gpu", attributes={"kind": {"string": "gpu"}, "model": {"int": number}})
        for number in range(nodes)
    }
    state = cluster(*(device_slice(name, name, [row]) for name, row in rows.items()), nodes=tuple(rows))
    for number in range(texts):
        asked = device_request(selectors=[{"cel": {"expression": f"{A}.model != {nodes + number}"}}])
        assert isinstance(allocate(state, Demand((claim(f"c{number}", asked),))), Decision)
    classes = [state.view(name).node_class for name in rows]
    kept = [len(found.selected) for found in classes if found is not None]
    assert len(kept) == nodes
    assert 0 < sum(kept) <= most


def test_results_of_selectors_have_a_bound_for_all_slices_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Selectors that read UUIDs are evaluated on each slice: thousands of them, times thousands of slices, were gigabytes."""
    nodes, texts, most = 30, 20, 60
    for name, value in (("MOST_TEXTS", 1000), ("MOST_KEPT", most), ("LEAST_TEXTS", 1)):
        monkeypatch.setattr(f"apportion.allocator.rules.slices.{name}", value)
    state, names = identified(nodes)
    for number in range(texts):
        assert decide(state, by_uuid(number)) is None
    kept = [piece.size for name in names for piece in state.view(name).slices]
    assert len(kept) == nodes
    assert 0 < sum(kept) <= most


def test_selectors_whose_results_are_many_leave_before_there_are_many_selectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that reads UUIDs has a result for each device of the cluster; two thousand of them were gigabytes."""
    nodes = 10
    monkeypatch.setattr("apportion.allocator.ranking.querycache.MOST_TEXTS", 1000)
    monkeypatch.setattr("apportion.allocator.ranking.querycache.MOST_RESULTS", 3 * nodes)
    state, _ = identified(nodes)
    for number in range(8):
        assert decide(state, by_uuid(number)) is None
    kept = [number for number in range(8) if state.query_cache.has_compiled(uuid_text(number))]
    assert kept in ([5, 6, 7], [4, 5, 6, 7])


def identified(nodes: int) -> tuple[State, tuple[str, ...]]:
    """Return nodes with a device each that differ in its UUID."""
    rows = {
        f"n{number}": device("gpu", attributes={"uuid": {"string": f"GPU-{number}"}})
        for number in range(nodes)
    }
    return cluster(*(device_slice(name, name, [row]) for name, row in rows.items()), nodes=tuple(rows)), (
        *rows,
    )


def uuid_text(number: int) -> str:
    """Return a selector that no device matches."""
    return f'{A}.uuid == "none-{number}"'


def by_uuid(number: int) -> Demand:
    """Return a claim with such a selector."""
    asked = device_request(kind="", selectors=[{"cel": {"expression": uuid_text(number)}}])
    return Demand((claim(f"c{number}", asked),))
