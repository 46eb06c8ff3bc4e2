"""Names in the text of the docs are those of something: labels, Events, log lines, metrics, fields with their defaults, variables of options."""

import re
from collections.abc import Iterator
from typing import Any

from apportion.api.crd import DEFINITIONS, render
from docsite.commands import commands
from tests.docs.blocks import ROOT, pages
from tests.test_reasons import documented

TEXTS = {
    path: path.read_text() for path in pages() if path.name != "CHANGELOG.md" and "adr" not in path.parts
}
CODE = "\n".join(
    path.read_text()
    for folder in ("operator", "manifests", "examples")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".yaml"}
)
LABEL = re.compile(r"(?<![\w.-])apportion\.dev/[a-z][a-z-]*[a-z]")
EVENTS = re.compile(r"Events? ((?:`[A-Z]\w+`(?:, | and | or )?)+)")
LOG_LINES = re.compile(r"[Ll]og lines? ((?:`\w+\.\w+`(?:, | and )?)+)")
METRIC = re.compile(r"`(apportion_[a-z_]+)`")
FIELD = re.compile(
    r"`((?:queue|partitions|preemption|rollout|free|deviceClasses|status)(?:\.[A-Za-z]+)+)(?:: [^`]+)?`(?: \((\d+[smh])\))?"
)
VARIABLE = re.compile(r"`(--[a-z-]+)` \(env `([A-Z_]+)`\)")
KUBERNETES = {"FailedScheduling", "FailedResourceClaimCreation"}
"""Reasons of Events that others write."""
OTHERS = {"queue.py", "status.devices", "status.storedVersions"}
"""What only looks like a field of our kinds: a file; fields of ResourceClaims and CustomResourceDefinitions."""


def named(pattern: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Yield page and name, of lists each name."""
    for path, text in TEXTS.items():
        for found in pattern.findall(text):
            yield from (
                (str(path.relative_to(ROOT)), each)
                for each in re.findall(r"[\w./-]+", found)
                if each not in {"and", "or"}
            )


def test_labels_and_annotations_are_read_or_written() -> None:
    """A name that nobody reads would be set in vain."""
    found = set(named(LABEL))
    assert len({name for _, name in found}) > 15
    assert sorted(each for each in found if each[1] not in CODE) == []


def test_events_have_documented_reasons() -> None:
    """People look for the word that `kubectl describe` shows."""
    found = set(named(EVENTS))
    assert len(found) > 20
    assert sorted(each for each in found if each[1] not in documented() | KUBERNETES) == []


def test_log_lines_are_written() -> None:
    """People search the log for them."""
    found = set(named(LOG_LINES))
    assert len(found) >= 4
    assert sorted(each for each in found if f'"{each[1]}"' not in CODE) == []


def test_metrics_are_served() -> None:
    """docs/metrics.md is made of those that are."""
    served = (ROOT / "docs/metrics.md").read_text()
    assert sorted(each for each in set(named(METRIC)) if f"| `{each[1]}` |" not in served) == []


def test_fields_exist_with_the_defaults_that_are_said() -> None:
    """Fields of our kinds, below `spec` or with `status`."""
    known = {
        path: default for definition in DEFINITIONS for path, default in _fields(_schema(definition), "")
    }
    found = {each for text in TEXTS.values() for each in FIELD.findall(text) if each[0] not in OTHERS}
    assert len(found) > 10
    assert sorted(name for name, _ in found if f".spec.{name}" not in known and f".{name}" not in known) == []
    assert [name for name, default in found if default and known[f".spec.{name}"] != default] == []


def _schema(definition: Any) -> dict[str, Any]:
    schema: dict[str, Any] = render(definition)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def _fields(schema: dict[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    inner = schema.get("items", schema)
    for name, each in inner.get("properties", {}).items():
        yield f"{at}.{name}", each.get("default")
        yield from _fields(each, f"{at}.{name}")


def test_variables_are_those_of_the_options() -> None:
    """`--option` (env `NAME`)."""
    variables = {
        (option, str(each.envvar))
        for _, command in commands()
        for each in command.params
        for option in each.opts
    }
    found = {each for text in TEXTS.values() for each in VARIABLE.findall(text)}
    assert len(found) >= 2
    assert sorted(found - variables) == []
