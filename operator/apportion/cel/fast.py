"""The fast evaluator (placeholder until the generator is in)."""

from collections.abc import Callable
from typing import TypeAlias

from apportion.cel.check import Checked
from apportion.dra.device import Device

Fast: TypeAlias = Callable[[Device], bool]


def fast(checked: Checked) -> Fast | None:
    """Return the fast form of a checked selector, None when it has none."""
    del checked
    return None
