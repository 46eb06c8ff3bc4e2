"""The reasons of Events: each stands in docs/reasons.md, and none that is there is gone from the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
CODE = ROOT / "operator/apportion"
WRITES = frozenset({"warning", "normal", "warn", "note", "_about"})
"""Functions with a reason among their first arguments."""
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
    """Return the reasons in the tables."""
    rows = [line.split("|")[1] for line in (ROOT / "docs/reasons.md").read_text().splitlines() if "|" in line]
    return {each for row in rows for each in row.replace(",", " ").split() if REASON.match(each)}


def test_every_reason_of_an_event_is_explained_and_no_other() -> None:
    """People look for the word that `kubectl describe` shows."""
    assert documented() == reasons()
