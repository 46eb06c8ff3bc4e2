"""The component that turns the web page on: what it adds, and that nothing opens it to others."""

from pathlib import Path
from typing import Any

from testbed.binaries import Binaries
from tests.install.rendered import combined, rendered

LISTS_EVENTS = {"apiGroups": [""], "resources": ["events"], "verbs": ["list"]}
WATCHES_HOLDS = {"apiGroups": ["apportion.dev"], "resources": ["deviceholds"], "verbs": ["watch"]}


def test_the_page_comes_with_the_component_only_and_no_port_is_opened(
    binaries: Binaries, tmp_path: Path
) -> None:
    """Without it there is neither page nor right to read Events; with it, no port of container, Service or NetworkPolicy leads there."""
    base = rendered(binaries, "manifests")
    more = combined(binaries, tmp_path, "manifests", "manifests/components/web")
    assert _container(more)["args"] == [*_container(base)["args"], "--web-port=8090"]
    assert LISTS_EVENTS not in _named(base, "ClusterRole")["rules"]
    assert _named(more, "ClusterRole")["rules"] == [
        *_named(base, "ClusterRole")["rules"],
        LISTS_EVENTS,
        WATCHES_HOLDS,
    ]
    assert _container(more).get("ports") == _container(base).get("ports")
    for kind in ("NetworkPolicy", "Service"):
        assert _of(more, kind) == _of(base, kind)


def _of(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] == kind]


def _named(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    [found] = [each for each in _of(objects, kind) if each["metadata"]["name"] == "apportion-operator"]
    return found


def _container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    [found] = _named(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    container: dict[str, Any] = found
    return container
