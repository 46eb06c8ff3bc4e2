"""manifests/components/monitoring as kustomize renders it over the product: what it names is there."""

import json
from pathlib import Path
from typing import Any

from testbed.binaries import Binaries
from tests.install.rendered import combined
from tests.metrics.monitoring import metrics_of, monitors, panels

Json = dict[str, Any]


def test_monitors_find_the_pods_and_dashboards_are_where_grafana_looks(
    binaries: Binaries, tmp_path: Path
) -> None:
    """Selectors, ports and namespaces agree with the workloads; each dashboard is whole, and has an identity of its own."""
    objects = combined(binaries, tmp_path, "manifests", "manifests/components/monitoring")
    workloads = {
        each["metadata"]["name"]: each["spec"]["template"]
        for each in objects
        if each["kind"] in {"Deployment", "DaemonSet"}
    }
    found = [each for each in objects if each["kind"] == "PodMonitor"]
    assert len(found) == len(workloads) == len(monitors())
    for monitor in found:
        template, [endpoint] = workloads[monitor["metadata"]["name"]], monitor["spec"]["podMetricsEndpoints"]
        assert monitor["spec"]["selector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
        # The rules go by the job's name, which is this label's value.
        assert template["metadata"]["labels"][monitor["spec"]["jobLabel"]] == monitor["metadata"]["name"]
        ports = [port["name"] for each in template["spec"]["containers"] for port in each.get("ports", ())]
        assert endpoint["port"] in ports
    [dashboards] = [each for each in objects if "grafana_dashboard" in each["metadata"].get("labels", {})]
    boards: list[Json] = [json.loads(text) for text in dashboards["data"].values()]
    assert {board["uid"] for board in boards} == {
        f"apportion-{name}" for name in ("fleet", "tenants", "efficiency", "operator")
    }
    for board in boards:
        ids = [panel["id"] for panel in board["panels"]]
        assert len({*ids}) == len(ids)
        assert all(panel["datasource"]["uid"] == "${datasource}" for panel in board["panels"])
    assert len([each for each in objects if each["kind"] == "PrometheusRule"]) == 1


def test_names_of_metrics_are_found_in_expressions_and_labels_are_not() -> None:
    """What the test of all expressions goes by."""
    expression = 'sum by (model) (rate(apportion_a_total{job="apportion-operator",up="x"}[5m])) / up'
    assert metrics_of(expression) == {"apportion_a_total", "up"}
    assert metrics_of("apportion:x:ratio == 0 and process_cpu_seconds_total") == {
        "apportion:x:ratio",
        "process_cpu_seconds_total",
    }
    assert all(metrics_of(each) for _, each in panels())
