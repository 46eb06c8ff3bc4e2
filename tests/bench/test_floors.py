"""The floors differ from their scenarios as they say; a million placements are measured from the same model."""

import gc
import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from apportion.allocator.search.scorer import Strategy
from apportion.collector import NEVER, Collector
from bench.files import Wish
from bench.floors import TEXTS, floors
from bench.million import measure
from bench.scenario import load, run
from tests.shared import shared


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep what is made in a folder of the test."""
    shared("peer/scenarios.py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def changed(kind: str) -> dict[str, Any]:
    """Return the floors of a tiny scenario."""
    found = {}
    for name, file in floors(kind, Wish("tiny")):
        found[name] = orjson.loads(gzip.decompress(file.read_bytes()))
    return found


@pytest.mark.usefixtures("cached")
def test_a_floor_leaves_the_claims_and_takes_the_likeness() -> None:
    """As many claims; no two nodes alike, selectors of their own, or UUIDs read."""
    found = changed("mig")
    counts = {len(world["claims"]) for world in found.values()}
    assert len(counts) == 1
    texts = [orjson.dumps(claim["spec"]) for claim in found["texts"]["claims"]]
    assert min(len(texts), TEXTS) * 0.5 < len(set(texts)) <= TEXTS
    read = [b"parentUUID" in orjson.dumps(claim["spec"]) for claim in found["reads-uuid"]["claims"]]
    assert any(read)
    assert not all(read)


@pytest.mark.usefixtures("cached")
def test_on_a_floor_every_node_is_a_kind_of_its_own() -> None:
    """And the claims are served as well as before."""
    for name, file in floors("gpu-nic", Wish("tiny")):
        scenario = load(file)
        if name == "own-kinds":
            assert scenario.state.class_count == scenario.nodes
        outcomes, _ = run(scenario, Strategy.PACK)
        assert sum(one.status == "unallocated" for one in outcomes) == 0


def test_a_small_measure_has_every_figure() -> None:
    """Eight GPUs with 26 devices each; what is asked for is placed."""
    shared("peer/scenarios.py")
    found = measure(2, 0.5, 1, unshared=False)
    assert found["placements"] == 2 * 8 * 26
    assert found["unplaced"] == 0
    assert found["claims"] > 0
    assert set(found["spent"]) == {"read", "state", "views", "collect"}


def test_what_outlives_a_claim_is_not_looked_at_again_while_claims_wait() -> None:
    """Passes over the young only: one over a hundred thousand survivors would hold a claim up for 60 ms."""
    passes: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            passes.append(info["generation"])

    former = gc.get_threshold()
    Collector().take_over(1000.0)
    gc.callbacks.append(note)
    try:
        kept = [[number] for number in range(150_000)]
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*former)
        gc.unfreeze()
    assert len(kept) == 150_000
    assert set(passes) == {0}


def test_the_collector_leaves_full_passes_to_quiet_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """New objects every minute, everything every hour, nothing in between."""
    done: list[str] = []
    for name in ("collect", "freeze", "unfreeze"):
        monkeypatch.setattr(f"gc.{name}", lambda name=name: done.append(name))
    thresholds: list[tuple[int, ...]] = []
    monkeypatch.setattr("gc.set_threshold", lambda *values: thresholds.append(values))
    collector = Collector()

    collector.take_over(1000.0)
    assert thresholds[0][2] == NEVER
    assert done == ["unfreeze", "collect", "freeze"]
    done.clear()
    collector.quiet(1030.0)
    assert done == []
    collector.quiet(1061.0)
    assert done == ["collect", "freeze"]
    done.clear()
    collector.quiet(4700.0)
    assert done == ["unfreeze", "collect", "freeze"]
