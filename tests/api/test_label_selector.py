"""Label selectors choose as Kubernetes' own do."""

from typing import Any

import pytest

from apportion.api.selector import LabelSelector
from apportion.dra.selection import Requirement

LABELS = {"zone": "a", "gpu": "h100"}


@pytest.mark.parametrize(
    ("selector", "chosen"),
    [
        ({}, True),
        ({"matchLabels": {"zone": "a"}}, True),
        ({"matchLabels": {"zone": "a", "gpu": "b200"}}, False),
        ({"matchLabels": {"rack": ""}}, False),
        ({"matchExpressions": [{"key": "gpu", "operator": "In", "values": ["a100", "h100"]}]}, True),
        ({"matchExpressions": [{"key": "rack", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "gpu", "operator": "NotIn", "values": ["h100"]}]}, False),
        ({"matchExpressions": [{"key": "rack", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "gpu", "operator": "DoesNotExist"}]}, False),
        (
            {
                "matchLabels": {"zone": "a"},
                "matchExpressions": [
                    {"key": "gpu", "operator": "Exists"},
                    {"key": "rack", "operator": "Exists"},
                ],
            },
            False,
        ),
    ],
)
def test_all_conditions_of_a_selector_must_hold(selector: dict[str, Any], chosen: bool) -> None:  # noqa: FBT001
    """NotIn and DoesNotExist hold for a label that is not there; In does not."""
    assert LabelSelector.from_json(selector).matches(LABELS) is chosen


@pytest.mark.parametrize(
    ("found", "bound", "greater"),
    [
        ("1000", "999", True),
        ("7", "-8", True),
        ("1_000", "999", False),
        ("1000", " 999", False),
        ("1000", "9_9", False),
        ("", "0", False),
    ],
)
def test_numbers_of_labels_are_those_that_kubernetes_reads(found: str, bound: str, greater: bool) -> None:  # noqa: FBT001
    """Python reads more: a pod would be sent to a node on which kube-scheduler refuses it."""
    assert Requirement("generation", "Gt", (bound,)).matches(found) is greater
    assert Requirement("generation", "Lt", (found,)).matches(bound) is greater
