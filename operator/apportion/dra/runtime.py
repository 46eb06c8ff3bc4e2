"""How long a pod says that it runs at most.

In: a pod's metadata and spec. Out: seconds from its start (`status.startTime`), by its annotation and by its deadline. The
annotation is a promise, which nobody enforces; at the deadline kubelet ends the pod (core/v1 `activeDeadlineSeconds`). The
deadline of a Job is not in its pods: a Job's template can carry both.
"""

import math
import re
from dataclasses import dataclass

from apportion.dra import reading
from apportion.dra.reading import Json

MAX_RUNTIME = "apportion.dev/max-runtime"
"""Annotation of a pod: a duration such as 90m or 36h."""
GRACE = 30.0
"""Seconds for which a pod may run longer: to end takes some, too (core/v1 terminationGracePeriodSeconds is 30 by default)."""
_PATTERN = re.compile(r"([0-9]+(\.[0-9]+)?(ms|s|m|h))+", re.ASCII)
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", re.ASCII)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_LONGEST = 366 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Runtime:
    """How long a pod runs at most, in seconds from its start."""

    declared: float | None = None
    """By its annotation; None: not declared, or not readable."""
    deadline: float | None = None
    """By `spec.activeDeadlineSeconds`; None: there is none."""
    flaw: str = ""
    """Why the annotation cannot be read, naming it."""

    @classmethod
    def from_json(cls, metadata: Json, spec: Json) -> "Runtime":
        """Read it. A broken annotation is a flaw: the pod is served like one that declares nothing."""
        annotations = metadata.get("annotations")
        text = annotations.get(MAX_RUNTIME) if isinstance(annotations, dict) else None
        deadline = spec.get("activeDeadlineSeconds")
        if text is None and deadline is None:
            return UNDECLARED
        declared, flaw = _read(text) if text is not None else (None, "")
        seconds = reading.number(spec, "activeDeadlineSeconds", at="spec") if deadline is not None else None
        return cls(declared, float(seconds) if seconds is not None else None, flaw)

    def longest(self, *, believed: bool = True) -> float | None:
        """Return after how many seconds it has ended; None: nobody knows. `believed`: whether the annotation counts."""
        known = [each for each in (self.declared if believed else None, self.deadline) if each is not None]
        return min(known, default=None)

    def end(self, started: float, now: float) -> float | None:
        """Return when a pod that started at a time will have ended; None: nobody knows, or it should have by now, GRACE included."""
        ends = [started + each for each in (self.declared, self.deadline) if each is not None]
        return min([each for each in ends if each + GRACE > now], default=None)

    def exceeded(self, started: float) -> float:
        """Return from when on a pod that started at a time runs longer than its annotation says; infinite: it says nothing."""
        return started + self.declared + GRACE if self.declared is not None else math.inf


UNDECLARED = Runtime()


def _read(text: object) -> tuple[float | None, str]:
    where = f"metadata.annotations[{MAX_RUNTIME}]"
    if isinstance(text, str) and len(text) <= 32 and _PATTERN.fullmatch(text):
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text))
        if 0 < seconds <= _LONGEST:
            return seconds, ""
        return None, f"{where} is {text}, not more than 0s and at most 8784h"
    return None, f"{where} is {str(text)[:40]!r}, not a duration such as 45m, 1h30m or 36h"
