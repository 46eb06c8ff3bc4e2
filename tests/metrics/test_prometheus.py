"""Rules and dashboards, judged by a real Prometheus that scraped a real run."""

import re
from pathlib import Path

import pytest
import yaml

from testbed.prometheus import QueryError, promtool
from tests.metrics.conftest import Scraped
from tests.metrics.monitoring import alerts, expressions, metrics_of, rules

UNUSUAL = frozenset(
    {
        "apportion_unreadable_objects",  # a newer release wrote something
        "apportion_cards_tainted",  # a card is sick
        "apportion_agent_removal_seconds_bucket",  # a partition's idle time is over
        "apportion_agent_removal_seconds_count",
    }
)
"""Metrics without a series as long as nothing unusual happens; that they exist the reference says (test_reference.py)."""
EMPTY = frozenset(
    {
        "fleet / Cards with taints",
        "operator / Objects observed",
        "efficiency / Cuts (p95)",
        "efficiency / Cuts and removals",
    }
)
"""Panels one of whose queries reads only such metrics."""


def described(text: str) -> frozenset[str]:
    """Return the metrics that a target describes, with or without values, by all names of their series."""
    rows = re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE)
    return frozenset(
        name + suffix
        for name, kind in rows
        for suffix in (("_bucket", "_count", "_sum") if kind == "histogram" else ("",))
    )


async def test_every_metric_that_an_expression_names_was_scraped(scraped: Scraped) -> None:
    """A name with a mistake is no error to Prometheus, only no data."""
    known = await scraped.prometheus.names()
    shown = frozenset().union(*map(described, scraped.texts.values()))
    assert shown >= UNUSUAL
    missing = {
        place: names
        for place, expression in expressions()
        if (names := metrics_of(expression) - known - UNUSUAL)
    }
    assert missing == {}
    assert known.isdisjoint(UNUSUAL), "no exception is needed"


async def test_every_expression_is_evaluated_and_every_panel_has_data(scraped: Scraped) -> None:
    """What may be empty is declared: conditions of alerts, and what reads only metrics of unusual events."""
    refused, empty = {}, set()
    for place, expression in expressions():
        try:
            found = await scraped.prometheus.query(expression)
        except QueryError as error:
            refused[place, expression] = str(error)
            continue
        if not found and place not in alerts():
            empty.add(place)
    assert refused == {}
    assert empty == EMPTY


VALUES = {
    'apportion_devices_capacity{device="gpu"}': 2,
    'apportion_devices_placeable{device="gpu"}': 0,
    'apportion_slices{driver="gpu.apportion.dev"}': 16,
    'apportion_slices_free{driver="gpu.apportion.dev"}': 7,
    'apportion_slices_scattered{driver="gpu.apportion.dev"}': 3,
    'apportion_queue_claims{reason="NotAllocated"}': 1,
    'apportion_queue_claims{reason="UnknownClass"}': 1,
    'sum(apportion_pending_claims{device_class="gpu.apportion.dev"})': 1,
    'apportion_partitions{phase="Ready"}': 1,
    'apportion_partitions{phase="Idle"}': 1,
    "apportion_allocated_claims": 2,
    'apportion_quota_used{quota="seen",resource="gpus"}': 1,
    'apportion_quota_pending_demands{quota="seen",resource=""}': 1,
    'apportion_agent_cards{kind="gpu",health="Healthy"}': 2,
    'apportion_agent_cut_seconds_count{kind="gpu",result="done"}': 2,
    "apportion_agent_claims": 2,
    'sum(apportion_api_requests_total{method="POST",resource="partitions",code="201"})': 2,
    'sum(apportion_events_total{job="apportion-operator",result="written"}) > bool 1': 1,
    "apportion_lease_remaining_seconds > bool 0": 1,
}
"""Two GPUs: one is held whole, of the other a seventh, and a larger partition is kept idle; one claim wants three."""


async def test_values_are_those_of_the_run(scraped: Scraped) -> None:
    """Each of the numbers, from hardware to query."""
    found = {each: await scraped.prometheus.query(each) for each in VALUES}
    assert {each: [float(row["value"][1]) for row in rows] for each, rows in found.items()} == {
        each: [value] for each, value in VALUES.items()
    }


async def test_conditions_of_alerts_hold_only_where_they_should(scraped: Scraped) -> None:
    """Prometheus evaluates every rule without a fault. A claim of an unknown class and a guarantee that is not met are what this run has."""
    found = await scraped.prometheus.rules()
    assert {rule["name"]: rule.get("lastError") for rule in found if rule["health"] != "ok"} == {}
    assert {rule["name"] for rule in found if rule["type"] == "alerting"} == alerts().keys()
    assert {rule["name"] for rule in found if rule.get("state", "inactive") != "inactive"} == {
        "ApportionClaimsCannotBeServed",
        "ApportionGuaranteeNotMet",
    }


@pytest.mark.parametrize("job", ["apportion-operator", "apportion-agent"])
async def test_promtool_finds_no_fault_in_the_metrics(
    scraped: Scraped, prometheus_programs: dict[str, Path], job: str
) -> None:
    """Names, units and help texts follow the conventions."""
    said = await promtool(prometheus_programs["promtool"], "check", "metrics", text=scraped.texts[job])
    assert said == ""


@pytest.mark.slow
async def test_promtool_finds_no_fault_in_the_rules(
    prometheus_programs: dict[str, Path], tmp_path: Path
) -> None:
    """The rules are sound, and each alert does what its unit test says."""
    program = prometheus_programs["promtool"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules()["spec"]))
    said = await promtool(
        program, "check", "rules", "--lint=all", "--lint-fatal", str(tmp_path / "rules.yaml")
    )
    assert "SUCCESS" in said
    tests = Path(__file__).with_name("alerts.test.yaml")
    (tmp_path / tests.name).write_text(tests.read_text())
    said = await promtool(program, "test", "rules", str(tmp_path / tests.name))
    assert "SUCCESS" in said


async def test_the_series_of_a_run_are_few_and_name_no_node_pod_or_claim(scraped: Scraped) -> None:
    """Their number follows models, profiles and reasons."""
    for text in scraped.texts.values():
        rows = [line for line in text.splitlines() if not line.startswith("#")]
        assert len(rows) < 600
        labels = {each for row in rows for each in re.findall(r'="([^"]*)"', row.split("} ")[0])}
        assert not labels & {"h100", "part", "kept", "whole", "many", "typo", "gpu-0", "gpus.apportion.dev"}
