"""What was found on a machine's real cards: frozen values, and the same as JSON without what identifies the machine.

In: nothing. Out: a report; UUIDs and serial numbers are replaced by short hashes that stay equal within and between reports.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

Json = dict[str, Any]
_IDENTIFIES: Final = re.compile(
    r"(?:GPU|MIG|NPU|NIC|VNPU)-[0-9A-Za-z:._-]{8,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_SECRET: Final = frozenset({"serial", "serialNumber"})


class Verdict(StrEnum):
    """How a check ended."""

    OK = "ok"
    BAD = "bad"
    """The agent would not work as it is."""
    UNKNOWN = "unknown"
    """It could not be looked at; `said` has the reason."""


@dataclass(frozen=True, slots=True)
class Check:
    """One question to the hardware or the host."""

    name: str
    verdict: Verdict
    said: str = ""
    """What was found, for people."""


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One family of devices."""

    name: str
    present: bool
    error: str = ""
    """Why its cards could not be discovered."""
    discovery: float = 0.0
    """Seconds."""
    look: float = 0.0
    """Milliseconds of CPU that one look at health and partitions takes: the agent takes one every two seconds."""
    cards: tuple[Json, ...] = ()
    """As `apportion node discover` prints them, with the partitions that are there."""


@dataclass(frozen=True, slots=True)
class Report:
    """What was found on one machine."""

    version: str
    host: Mapping[str, str]
    backends: tuple[BackendReport, ...]
    checks: tuple[Check, ...] = field(default=())
    answers: tuple[Json, ...] = ()
    """What NVML answered to each question (`answers.py`); empty without it."""

    @property
    def fine(self) -> bool:
        """Whether nothing was found that the agent could not work with."""
        return not any(check.verdict is Verdict.BAD for check in self.checks)

    def to_json(self, *, names: bool = False) -> Json:
        """Return the report; `names`: with the UUIDs and serial numbers as they are."""
        made = {
            "report": "real-card/v1",
            "apportion": self.version,
            "host": dict(self.host),
            "backends": [
                {
                    "name": each.name,
                    "present": each.present,
                    "error": each.error,
                    "discoverySeconds": round(each.discovery, 3),
                    "lookCpuMs": round(each.look, 2),
                    "cards": list(each.cards),
                }
                for each in self.backends
            ],
            "checks": [
                {"name": each.name, "verdict": each.verdict.value, "said": each.said} for each in self.checks
            ],
            "answers": list(self.answers),
        }
        hidden: Json = made if names else _hidden(made)
        return hidden


def _hidden(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _hash(str(inner)) if name in _SECRET and inner else _hidden(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [_hidden(inner) for inner in value]
    return _IDENTIFIES.sub(lambda found: _hash(found[0]), value) if isinstance(value, str) else value


def _hash(text: str) -> str:
    return f"hidden-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
