"""`apportion snapshot --anonymize`: layouts, cohorts of quotas and what conditions say name nobody, and decisions stay what they are."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apportion.__main__ import app
from apportion.allocator.decision import Decision
from apportion.api.contract import LAYOUT_LABEL
from apportion.cli.answers.decisions import Decisions
from apportion.cli.world.world import World
from apportion.cluster import kinds
from tests.cli.worlds import Cluster, two_cards
from tests.observedcluster import GPU, request

Json = dict[str, Any]
ATTRIBUTE = f'device.attributes["{GPU}"]'
SAID = {"type": "Accepted", "status": "True", "reason": "Valid", "lastTransitionTime": "2026-01-01T00:00:00Z"}
COMPARISONS = (
    f'{ATTRIBUTE}.?layout.orValue("") == "gpu"',
    f"{ATTRIBUTE}.?layout.orValue('') == 'gpu'",
    f'"gpu" == {ATTRIBUTE}.?layout.orValue("")',
    f'"layout" in {ATTRIBUTE} && {ATTRIBUTE}["layout"] == "gpu"',
    f'"layout" in {ATTRIBUTE} && {ATTRIBUTE}.layout in ["acme-absent", "gpu"]',
    f'"layout" in {ATTRIBUTE} && {ATTRIBUTE}.layout != "acme-other"',
)
"""Each selects devices of a layout that has the name of a type."""


def without_names(tmp_path: Path, cluster: Cluster) -> Json:
    path = cluster.write(tmp_path / "w")
    result = CliRunner().invoke(app, ["snapshot", "--anonymize", "--world", str(path)])
    assert result.exit_code == 0, result.stderr
    found: Json = json.loads(result.stdout)
    return found


def laid_out() -> Cluster:
    """Return two nodes, each with a static partition beside its card, of layouts `gpu` and `acme-other`."""
    cluster = two_cards()
    for number, name in enumerate(("gpu", "acme-other"), 1):
        attributes = {"type": {"string": "mig"}, "layout": {"string": name}}
        made = {"devices": [{"name": f"static-{number}", "attributes": attributes}]}
        cluster.slice(f"n{number}", f"static-{number}", made, 1, f"extra-{number}")
        raw = cluster.layout(
            {"profile": "1g.10gb", "count": 1}, name=name, nodeSelector={"acme.dev/none": "x"}
        )
        raw["status"] = {"conditions": [{**SAID, "message": "node acme-alpha of namespace acme"}]}
        cluster.see(kinds.LAYOUTS, raw)
        cluster.device_class(
            f"static-{number}", "true", **{LAYOUT_LABEL: name, "apportion.dev/managed": "true"}
        )
    return cluster


@pytest.mark.parametrize("expression", COMPARISONS)
def test_a_claim_gets_the_same_partition_of_a_layout(tmp_path: Path, expression: str) -> None:
    """The layout is called as a type of devices, so that only what is compared with it is renamed."""
    cluster = laid_out()
    cluster.wait_for("static", request("mig", expression=f'{expression} && {ATTRIBUTE}.type != "gpu"'))
    found = without_names(tmp_path, cluster)
    texts = [
        each["spec"]["devices"]["requests"][0]["exactly"]["selectors"][0]["cel"]["expression"]
        for each in found["items"]
        if each["kind"] == "ResourceClaim" and "allocation" not in each.get("status", {})
    ]
    assert [text.endswith('.type != "gpu"') for text in texts] == [True]
    assert "partitionlayout-" in texts[0]
    for world in (World([*cluster.objects.values()]), World(found["items"])):
        decisions = Decisions(world.snapshot, world.holds)
        [demand] = decisions.waiting
        answer = decisions.decide(demand)
        assert isinstance(answer, Decision), answer
        assert [each.device.name for each in answer.allocations[0].results] == ["static-1"]


def test_a_layout_is_the_same_number_in_labels_attributes_and_its_object(tmp_path: Path) -> None:
    """What its classes select by CEL it is, too; messages of conditions say nothing any more."""
    found = without_names(tmp_path, laid_out())
    text = json.dumps(found)
    assert "acme-other" not in text
    assert "acme-alpha" not in text
    assert '"message"' not in text
    of_kind = {kind: [each for each in found["items"] if each["kind"] == kind] for kind in kinds_of(found)}
    layouts = [each["metadata"]["name"] for each in of_kind["PartitionLayout"]]
    assert sorted(layouts) == ["partitionlayout-1", "partitionlayout-2"]
    labels = {each["metadata"]["name"]: each["metadata"]["labels"] for each in of_kind["DeviceClass"]}
    assert labels["static-2"][LAYOUT_LABEL] == "partitionlayout-1"
    assert labels["static-1"][LAYOUT_LABEL] == "partitionlayout-2"
    devices = [device for each in of_kind["ResourceSlice"] for device in each["spec"].get("devices", ())]
    attributes = {each["name"]: each["attributes"] for each in devices}
    assert attributes["static-2"]["layout"] == {"string": "partitionlayout-1"}
    conditions = [each["status"]["conditions"] for each in of_kind["PartitionLayout"]]
    assert conditions == [[SAID], [SAID]]


def kinds_of(found: Json) -> set[str]:
    return {each["kind"] for each in found["items"]}


def test_quotas_of_one_cohort_stay_together(tmp_path: Path) -> None:
    """One that is over its limit borrows as before; the cohort's name is a number in the order of names."""
    cluster = two_cards()
    for name, cohort in (("a", "acme-z"), ("b", "acme-y"), ("c", "acme-z")):
        resources = [{"name": "gpu", "deviceClass": "gpu", "guaranteed": 1}]
        selector = {"matchLabels": {"team": name}}
        spec = {"namespaceSelector": selector, "resources": resources, "cohort": cohort}
        cluster.see(kinds.QUOTAS, {"metadata": {"name": name}, "spec": spec})
    found = without_names(tmp_path, cluster)
    cohorts = {
        each["metadata"]["name"]: each["spec"]["cohort"]
        for each in found["items"]
        if each["kind"] == "AcceleratorQuota"
    }
    assert [*cohorts.values()] == ["cohort-2", "cohort-1", "cohort-2"]
    assert "acme" not in json.dumps(found)
