"""A match over list attributes: dead ends are kept by the devices that the match allows, which does not say by which values."""

from typing import Any

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision
from apportion.allocator.demand import Demand
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.terms import Terms
from tests.allocator.builders import GPU, A, Raw, amounts, claim, cluster, device_request, device_slice

VALUES = {"x1": (1, 2, 4), "x2": (1, 2, 4), "y1": (1, 3, 4), "y2": (2, 3, 4)}
VALUES |= dict.fromkeys(("e3", "f3", "g3"), (1, 3)) | dict.fromkeys(("h3", "i3", "j3"), (2, 3))
VALUES |= dict.fromkeys(("e2", "f2", "g2"), (2, 4)) | dict.fromkeys(("h1", "i1", "j1"), (1, 4))
USES = {"e2": "ab", "f2": "bc", "g2": "ca", "h1": "pq", "i1": "qr", "j1": "rp"}
"""Of each three no two fit together."""


def _device(name: str, values: tuple[int, ...]) -> Raw:
    row: Raw = {"name": name, "attributes": {"id": {"string": name}, "v": {"ints": list(values)}}}
    if name in USES:
        row["consumesCounters"] = [
            {"counterSet": f"set-{name[1]}", "counters": amounts(**dict.fromkeys(USES[name], 1))}
        ]
    return row


def _request(name: str, *devices: str) -> Raw:
    listed = ", ".join(f'"{each}"' for each in devices)
    return device_request(name, "", selectors=[{"cel": {"expression": f"{A}.id in [{listed}]"}}])


@pytest.mark.parametrize("strategy", list(Strategy))
def test_a_dead_end_of_other_values_does_not_rule_out_a_solution(strategy: Strategy) -> None:
    """a=y1, b=y2, c=x1, d=x2 and e3 to j3 all have the value 3."""
    sets: list[dict[str, Any]] = [
        {"name": "set-2", "counters": amounts(a=1, b=1, c=1)},
        {"name": "set-1", "counters": amounts(p=1, q=1, r=1)},
    ]
    rows = [_device(*each) for each in VALUES.items()]
    state = cluster(
        device_slice("d", "n1", rows, count=2), device_slice("s", "n1", count=2, sharedCounters=sets)
    )
    requests = [
        _request("a", "x1", "y1"),
        _request("b", "x2", "y2"),
        _request("c", "x1", "y1"),
        _request("d", "x2", "y2"),
        *(_request(name, f"{name}3", f"{name}{'2' if name in 'efg' else '1'}") for name in "efghij"),
    ]
    match = {"matchAttribute": f"{GPU}/v", "requests": list("abefghij")}
    found = allocate(state, Demand((claim("c", *requests, constraints=[match]),)), Terms(strategy))
    assert isinstance(found, Decision)
