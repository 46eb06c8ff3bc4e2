"""Numbers in labels of nodes, which node selectors of slices compare (Gt, Lt), have 64 bits.

Upstream: apimachinery's labels.Requirement, strconv.ParseInt(text, 10, 64).
"""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from tests.allocator.builders import claim, cluster, device, device_request, device_slice

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


@pytest.mark.parametrize(
    ("label", "operator", "value", "matches"),
    [
        ("1800000000000000000", "Gt", "1700000000000000000", True),
        ("1800000000000000000", "Lt", "1700000000000000000", False),
        (str(LARGEST), "Gt", str(LARGEST - 1), True),
        (str(LARGEST), "Gt", str(LARGEST), False),
        (str(SMALLEST), "Lt", str(SMALLEST + 1), True),
        (str(LARGEST + 1), "Gt", "0", False),
        (str(SMALLEST - 1), "Lt", "0", False),
        ("0", "Lt", str(LARGEST + 1), False),
        ("+5", "Gt", "-5", True),
        (f"{'0' * 60}12", "Gt", "11", True),
        ("-0", "Lt", "1", True),
        ("000", "Lt", "1", True),
        ("1_000", "Gt", "1", False),
        ("0x10", "Gt", "1", False),
        (" 5", "Gt", "1", False),
        ("\u0665", "Gt", "1", False),
        ("", "Lt", "1", False),
        ("-", "Lt", "1", False),
        pytest.param("9" * 5000, "Gt", "1", False, id="thousands of digits"),
        pytest.param(f"{'0' * 5000}2", "Gt", "1", True, id="thousands of zeros"),
    ],
)
def test_labels_are_compared_as_numbers_of_64_bits(
    label: str, operator: str, value: str, *, matches: bool
) -> None:
    """Signs and leading zeros are allowed, other notations are no numbers."""
    terms = [{"matchExpressions": [{"key": "since", "operator": operator, "values": [value]}]}]
    piece = device_slice("s", None, [device("a")], allNodes=None, nodeSelector={"nodeSelectorTerms": terms})
    state = cluster(piece)
    state.put_node("n1", {"since": label})
    assert isinstance(allocate(state, Demand((claim("c", device_request()),))), Decision) == matches
