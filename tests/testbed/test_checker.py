"""For how long the checker lets several objects disagree before it calls that a violation."""

import asyncio
from types import SimpleNamespace
from typing import Any

from testbed.checker import Checker
from tests.testbed.violationobjects import pod


async def test_a_bound_pod_without_its_devices_is_no_violation_while_nobody_may_have_the_lease() -> None:
    """Nobody mends it then; another checker, which allows no such time, sees one at its third look."""
    installation: Any = SimpleNamespace(nodes={}, kubelets={})
    strict, patient = Checker(installation, stays=0.0), Checker(installation, stays=0.0, unled=600.0)
    for checker in (strict, patient):
        checker.pods["p"] = pod("n1")
    looking = [asyncio.create_task(checker._look()) for checker in (strict, patient)]
    await asyncio.sleep(2.0)
    for task in looking:
        task.cancel()
    assert strict.violations
    assert not patient.violations
