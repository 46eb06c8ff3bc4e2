"""Whether a large group is whole is looked at in steps."""

import pytest

from apportion.api.contract import GATE
from apportion.scheduling.demands.groups import has_all
from apportion.scheduling.writing.gates import AT_ONCE, Gates
from tests.scheduling.podgroups import member
from tests.scheduling.queued import world
from tests.steps import Steps

MANY = 3 * AT_ONCE


@pytest.mark.parametrize("missing", [False, True])
def test_whether_a_large_group_is_whole_is_looked_at_in_steps(*, missing: bool) -> None:
    """Its pods share a claim: 5,000 of them took 0.05 s in each pass, in one piece."""
    made = world()
    made.allocate(made.claim("c"), "n1", "gpu-0")
    for number in range(MANY):
        waits = missing and number % 2 == 0
        gates = (GATE, "others.example/gate") if waits else (GATE,)
        member(made, f"p{number}", "c", least=str(MANY), gates=gates)
    steps, longest, found = Gates(made.snapshot).open(contested=frozenset(), phase=lambda _: None), 0, None
    while found is None:
        with Steps(has_all) as counted:
            try:
                next(steps)
            except StopIteration as end:
                found = end.value
        longest = max(longest, counted.count)
    assert len(found) == (0 if missing else MANY)
    assert 0 < longest <= AT_ONCE
