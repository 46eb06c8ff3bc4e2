"""OptionalSteps: steps of a pass without which claims are allocated and pods lose their gates all the same.

In: the work of such a step, the clock. Out: what it returns, or None where it broke down; the log and a counter say so (ADR 46).
"""

from collections.abc import Callable, Generator
from typing import TypeVar

import structlog

from apportion import metrics

_log = structlog.get_logger()
_LOGGED = 60.0
"""Seconds for which a step that breaks down once more is only counted: passes come many times a second."""

T = TypeVar("T")
S = TypeVar("S")


class OptionalSteps:
    """Does such steps; one that breaks down is left out of its pass, and tried again in the next one."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._logged: dict[str, float] = {}
        """When a step was logged last."""

    def do(self, name: str, work: Generator[S, None, T]) -> Generator[S, None, T | None]:
        """Do a step as far as it goes, and yield where it does; None: it broke down."""
        try:
            return (yield from work)
        except Exception:  # noqa: BLE001 - whatever it is, it is reported; the next replica would meet it, too
            metrics.DEFECTIVE_STEPS.labels(name).inc()
            now = self._clock()
            if now - self._logged.get(name, float("-inf")) >= _LOGGED:
                self._logged[name] = now
                _log.exception("step.defect", step=name)
            return None
