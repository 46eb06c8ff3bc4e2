"""The component for preemption: it brings the rights that evictions need, and the base does not have them."""

from pathlib import Path
from typing import Any

from testbed.binaries import Binaries
from tests.install.rendered import combined, rendered

EVICTS = {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]}
COUNTS = {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list"]}


def test_the_right_to_evict_comes_with_the_component_only(binaries: Binaries, tmp_path: Path) -> None:
    """A stolen token of an installation without it ends no pod."""
    base = _rules(rendered(binaries, "manifests"))
    assert not any("pods/eviction" in rule["resources"] for rule in base)
    more = _rules(combined(binaries, tmp_path, "manifests", "manifests/components/preemption"))
    assert more == [*base, EVICTS, COUNTS]


def _rules(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    (role,) = [
        each
        for each in objects
        if each["kind"] == "ClusterRole" and each["metadata"]["name"] == "apportion-operator"
    ]
    rules: list[dict[str, Any]] = role["rules"]
    return rules
