"""A chip of a model that only npu-smi knows, whose driver does not say what its vNPUs share: it is published whole, and no other card misses anything."""

import pytest

from apportion.agent.devices.ascend import templates
from apportion.agent.devices.values import MIB, CounterAmounts

TEMPLATES = {"vir04": {"aicore": 4, "memory": 8192 * MIB, "aicpu": 1}}
WHOLE = {"aicore": 8, "memory": 16384 * MIB, "aicpu": 2}


def without(name: str) -> CounterAmounts:
    """Return what the driver says of a chip without one number."""
    return {key: amount for key, amount in WHOLE.items() if key != name}


@pytest.mark.parametrize(
    "totals", [without("aicore"), without("memory"), {**WHOLE, "aicore": 0}, {**WHOLE, "memory": 0}, {}]
)
def test_a_chip_that_does_not_say_what_it_has_is_not_cut(totals: CounterAmounts) -> None:
    """The division by its cores, or the missing number, ended the agent at each start."""
    assert templates.profiles(TEMPLATES, None, totals) == ()


def test_a_chip_that_says_it_is_cut() -> None:
    """Its templates are those of npu-smi."""
    assert [(made.name, made.most) for made in templates.profiles(TEMPLATES, None, WHOLE)] == [("vir04", 2)]
