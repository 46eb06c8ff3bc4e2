"""What manifests/components/monitoring brings: rules, monitors, dashboards, and the expressions in them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPONENT = ROOT / "manifests/components/monitoring"
Json = dict[str, Any]
_METRIC = re.compile(r'\b(?:apportion[a-z_:]*|process_[a-z_]+|up)\b(?!\s*(?:=~?|!=|!~)")')


def monitors() -> list[Json]:
    """Return the PodMonitors."""
    return [*yaml.safe_load_all((COMPONENT / "podmonitors.yaml").read_text())]


def rules() -> Json:
    """Return the PrometheusRule."""
    found: Json = yaml.safe_load((COMPONENT / "rules.yaml").read_text())
    return found


def every_rule() -> list[Json]:
    """Return all rules."""
    return [rule for group in rules()["spec"]["groups"] for rule in group["rules"]]


def alerts() -> dict[str, Json]:
    """Return the alerts by name."""
    return {rule["alert"]: rule for rule in every_rule() if "alert" in rule}


def panels() -> Iterator[tuple[str, str]]:
    """Yield `dashboard / panel` and expression of each query of a dashboard."""
    for file in sorted(COMPONENT.glob("dashboards/*.json")):
        for panel in json.loads(file.read_text())["panels"]:
            for target in panel["targets"]:
                yield f"{file.stem} / {panel['title']}", target["expr"]


def expressions() -> Iterator[tuple[str, str]]:
    """Yield where each expression is, and the expression with Grafana's variables replaced for scrapes of each second."""
    for rule in every_rule():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for place, expression in panels():
        yield place, expression.replace("$__rate_interval", "10s")


def metrics_of(expression: str) -> frozenset[str]:
    """Return the names of the metrics that an expression reads; label values in quotes are none."""
    return frozenset(_METRIC.findall(re.sub(r'"[^"]*"', '""', expression)))
