"""The floors differ from their scenarios in the documented way."""

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from apportion.allocator.search.scorer import Strategy
from bench.floors import TEXTS, floors
from bench.generator import ScenarioSpec
from bench.scenariofile import load
from bench.scenariorun import run
from tests.shared import shared


@pytest.fixture
def cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Put the cache into a folder of the test."""
    shared("peer/scenarios.py")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def changed(scenario: str) -> dict[str, Any]:
    """Return the content of the floors of a tiny scenario, by name."""
    found = {}
    for name, file in floors(scenario, ScenarioSpec("tiny")):
        found[name] = orjson.loads(gzip.decompress(file.read_bytes()))
    return found


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_a_floor_has_as_many_claims_and_changed_requests() -> None:
    """As many claims; many selector texts, or some that read UUIDs."""
    found = changed("mig")
    counts = {len(world["claims"]) for world in found.values()}
    assert len(counts) == 1
    texts = [orjson.dumps(claim["spec"]) for claim in found["texts"]["claims"]]
    assert min(len(texts), TEXTS) * 0.5 < len(set(texts)) <= TEXTS
    read = [b"parentUUID" in orjson.dumps(claim["spec"]) for claim in found["reads-uuid"]["claims"]]
    assert any(read)
    assert not all(read)


@pytest.mark.slow
@pytest.mark.usefixtures("cached")
def test_on_the_floor_own_kinds_every_node_is_a_class_of_its_own() -> None:
    """All claims are still allocated."""
    for name, file in floors("gpu-nic", ScenarioSpec("tiny")):
        scenario = load(file)
        if name == "own-kinds":
            assert scenario.state.class_count == scenario.nodes
        outcomes, _ = run(scenario, Strategy.PACK)
        assert sum(one.status == "unallocated" for one in outcomes) == 0
