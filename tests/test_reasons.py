"""The reasons of Events and conditions, and what devices say: each stands in docs/reasons.md, and none that is there is gone from the code."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from apportion.agent.slices import nodeinventory
from apportion.dra.taint import Taint
from apportion.errors import Busy, Lost, NoRoom, Unsupported
from apportion.scheduling.quota.overlimit import EXCEEDS_LIMIT

ROOT = Path(__file__).parents[1]
CODE = ROOT / "operator/apportion"
WRITES = frozenset({"warning", "normal", "warn", "note", "_about"})
"""Functions with a reason among their first arguments."""
STATUSES = (
    "api/unresolved.py",
    "partitions/status.py",
    "partitions/unresolved.py",
    "scheduling/quota/status.py",
    "scheduling/quota/unresolved.py",
    "scheduling/defrag/status.py",
    "scheduling/defrag/planning.py",
    "scheduling/defrag/campaigns.py",
    "scheduling/defrag/closing.py",
    "agent/lifecycle/cut.py",
    "agent/lifecycle/release.py",
    "agent/lifecycle/worker.py",
)
"""Modules that write conditions."""
NONE = frozenset(
    {
        "Accepted",
        "Completed",
        "Exclusive",
        "Joined",
        "Ready",
        "Resolved",
        "Served",
        "Warm",
    }  # types of conditions
    | {"Complete", "Cut", "NothingWaits", "Planned", "Valid"}  # all is well
    | {"Moved", "Picture", "Succeeded"}
)
"""Words in these modules that are no reason that something is not as it should be."""
REASON = re.compile(r"^[A-Z][a-z]+(?:[A-Z][a-z]+)*$")


def written(tree: ast.Module) -> Iterator[str]:
    """Yield the reasons of the Events that a module writes: texts in a call, or names that the module gives a text."""
    named: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for target in node.targets:
                named.setdefault(getattr(target, "id", ""), set()).add(str(node.value.value))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        function = node.func
        if getattr(function, "attr", getattr(function, "id", "")) in WRITES:
            for argument in node.args[:3]:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)
                elif isinstance(argument, ast.Name):
                    yield from named.get(argument.id, ())


def reasons() -> set[str]:
    """Return the reasons of all Events."""
    found = {
        "ExceedsLimit",
        "CardSick",
        "CardLost",
        "CardReleased",
    }  # a constant of another module; made of a card's health
    for path in CODE.rglob("*.py"):
        found |= {each for each in written(ast.parse(path.read_text())) if REASON.match(each)}
    return found


def documented() -> set[str]:
    """Return the reasons of Events in the tables."""
    events = (ROOT / "docs/reasons.md").read_text().split("\n## In conditions\n")[0]
    return words(row[0] for row in tables(events))


def tables(text: str) -> Iterator[list[str]]:
    """Yield the cells of each row."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("| ").split("|")]


def words(cells: Iterable[str]) -> set[str]:
    """Return the reasons in cells of tables."""
    return {each for cell in cells for each in cell.replace(",", " ").split() if REASON.match(each)}


def named_in(*modules: str) -> set[str]:
    """Return all texts of modules that look like a reason."""
    return {
        node.value
        for name in modules
        for node in ast.walk(ast.parse((CODE / name).read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and REASON.match(node.value)
    }


@pytest.mark.slow
def test_every_reason_of_an_event_is_explained_and_no_other() -> None:
    """People look for the word that `kubectl describe` shows."""
    assert documented() == reasons()


def test_every_reason_of_a_condition_is_explained_and_no_other() -> None:
    """Conditions are what administrators look at; those that say that all is well need no explanation."""
    text = (ROOT / "docs/reasons.md").read_text().split("\n## In conditions\n")[1].split("\n## ")[0]
    found = (
        named_in(*STATUSES) | {kind.__name__ for kind in (NoRoom, Busy, Lost, Unsupported)} | {EXCEEDS_LIMIT}
    )
    assert words(row[1] for row in tables(text)) == found - NONE


@pytest.mark.slow
def test_every_word_and_taint_of_a_device_is_explained() -> None:
    """They are what `kubectl get resourceslices` shows of a card that is not offered in every way."""
    text = (ROOT / "docs/reasons.md").read_text().split("\n## On devices\n")[1]
    taints = {each.key for each in vars(nodeinventory).values() if isinstance(each, Taint)}
    taints |= {nodeinventory.off_fabric("").key, nodeinventory.held_for("").key}
    assert set(re.findall(r"`(apportion\.dev/[\w-]+)`", text)) == taints
    shown = words(row[1] for row in tables(text))
    assert {"MemoryUnknown", "NotPermitted", "NotStarted"} <= shown
    assert shown <= named_in(*(str(path.relative_to(CODE)) for path in CODE.glob("agent/**/*.py")))
