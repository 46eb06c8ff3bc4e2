"""Every alert leads to a section that says what to do, and a unit test shows it fire and not fire."""

import re
from pathlib import Path

import yaml

from tests.metrics.monitoring import ROOT, alerts

OWN_NAMESPACES = frozenset(("ExceedsLimit", "GroupIncomplete", "NetworkDeviceTaken", "PartitionNotCut"))
"""What a claim waits for that its own namespace has, or does."""
OTHER_ALERTS = frozenset(("PolicyUnreadable", "Unreadable"))
"""ApportionObjectsUnreadable is about these."""
SECTIONS = ("Meaning", "Impact", "Diagnosis", "Mitigation")


def test_every_alert_has_its_section_and_every_section_its_alert() -> None:
    """The annotation leads there; each section says what it means, whom it hits, where to look and what to do."""
    text = (ROOT / "docs/alerts.md").read_text()
    parts = dict(re.findall(r"^## (Apportion\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert parts.keys() == alerts().keys()
    for name, alert in alerts().items():
        assert alert["annotations"]["runbook"] == f"docs/alerts.md#{name.lower()}"
        assert [each for each in SECTIONS if f"**{each}**" not in parts[name]] == [], name


def test_every_alert_has_a_severity_and_a_unit_test_in_which_it_fires_and_one_in_which_not() -> None:
    """The tests are promtool's (test_prometheus.py runs them)."""
    tests = yaml.safe_load(Path(__file__).with_name("alerts.test.yaml").read_text())["tests"]
    rows = [row for test in tests for row in test["alert_rule_test"]]
    assert {row["alertname"] for row in rows if row["exp_alerts"]} == alerts().keys()
    assert {row["alertname"] for row in rows if not row["exp_alerts"]} == alerts().keys()
    assert {alert["labels"]["severity"] for alert in alerts().values()} == {"critical", "warning", "info"}


def test_whatever_keeps_a_claim_waiting_one_alert_is_about_it() -> None:
    """By the reason of its last Event: claims that preemption did not help, or whose allocation a webhook refuses, waited for days without any."""
    table = (ROOT / "docs/reasons.md").read_text().partition("## On claims and pods")[2].partition("\n## ")[0]
    reasons = frozenset(re.findall(r"^\| (\w+) \| (?:claim|pod|any)", table, re.MULTILINE))
    known = alerts()
    waits = re.search(r'reason!~"([^"]+)"', known["ApportionClaimsWaitLong"]["expr"])
    never = re.search(r'reason=~"([^"]+)"', known["ApportionClaimsCannotBeServed"]["expr"])
    assert waits is not None
    assert never is not None
    left_out, broken = frozenset(waits[1].split("|")), frozenset(never[1].split("|"))
    assert {"WriteFailed", "PreemptionBlocked", "TooManyTerms"} <= reasons
    assert left_out == broken | OWN_NAMESPACES | OTHER_ALERTS | {"Undecided"}
    assert left_out - reasons == {"Undecided"}
    assert broken >= {
        reason for reason in reasons if reason.startswith(("Broken", "TooManyTerms", "Unknown"))
    } - {"UnknownMetadata"}
