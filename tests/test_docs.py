"""What the docs say is run, or counted."""

import doctest
import re
from pathlib import Path

import pytest

from apportion.agent.devices import backend
from apportion.allocator.search import scorer

ROOT = Path(__file__).parents[1]
ALLOCATOR = ROOT / "operator/apportion/allocator"
LIMIT = re.compile(r"^((?:MOST|LEAST)\w*)\s*=", re.MULTILINE)
NO_CACHE = {
    "allocationresult.MOST_CONFIGS",
    "defrag.boundedsearch.MOST_BOUNDS", "defrag.boundedsearch.MOST_NODES", "defrag.boundedsearch.MOST_SETS",
    "defrag.packing.MOST_CHOICES", "defrag.plan.MOST_DEVICES", "defrag.restartcost.MOST_WEIGHT",
    "explain.explain.MOST_GROUPS", "gang.closest.MOST_TRIED",
    "gang.count.MOST_KINDS", "gang.place.MOST_ASKED",
    "nodeoutcomes.MOST_RANKINGS", "preemption.findgangvictims.MOST_DOMAINS", "preemption.findvictims.MOST_NODES",
    "reservation.MOST_ASKED", "queue.LEAST_TOGETHER", "queue.MOST_TOGETHER",
    "ranking.ranking.LEAST_STEPS", "ranking.rankedstates.MOST_POPPED", "rules.capacity.MOST", "rules.query.MOST_RESULTS",
}  # fmt: skip
"""Limits of something else than a cache: of the API, of a text, of a loop."""


def test_the_tour_is_what_happens() -> None:
    """The session in the tour gives the printed results."""
    result = doctest.testfile(str(ROOT / "docs/tour.md"), module_relative=False)
    assert result.attempted > 10
    assert result.failed == 0


@pytest.mark.parametrize("module", [backend, scorer], ids=lambda module: module.__name__)
def test_the_example_of_an_interface_runs(module: object) -> None:
    """Someone who implements the protocol can start from its docstring."""
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


def test_every_cache_of_the_allocator_is_in_the_table() -> None:
    """A new bound stands in docs/caches.md beside its owner."""
    table = (ROOT / "docs/caches.md").read_text()
    limits = [
        (".".join(path.relative_to(ALLOCATOR).with_suffix("").parts), name)
        for path in sorted(ALLOCATOR.rglob("*.py"))
        for name in LIMIT.findall(path.read_text())
    ]
    assert [
        f"{module}.{name}"
        for module, name in limits
        if f"{module}.{name}" not in NO_CACHE
        and not (name in table and module.rsplit(".", 1)[-1] in table.lower())
    ] == []
