"""Durations as Go and Kubernetes write them: "300s", "1m30s", "500ms". In: text. Out: timedelta, and back."""

import re
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

PATTERN = r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$"
LONGEST = timedelta(days=7)
"""Longest duration; no time-out of apportion is reasonably longer."""

_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse(value: object) -> timedelta:
    """Read a duration; raises ValueError when it is not one, or longer than a week."""
    if isinstance(value, timedelta):
        return value
    if not isinstance(value, str) or not re.fullmatch(PATTERN, value):
        raise ValueError(f"{value!r} is not a duration such as 300s, 1m30s or 500ms")
    seconds = sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(value))
    if seconds > LONGEST.total_seconds():
        raise ValueError(f"{value} is longer than a week")
    return timedelta(seconds=seconds)


def render(value: timedelta) -> str:
    """Write a duration in the largest unit that divides it: 300 seconds are "5m", 1.5 seconds "1500ms"."""
    thousandths = round(value.total_seconds() * 1000)
    for unit, size in (("h", 3_600_000), ("m", 60_000), ("s", 1000)):
        if thousandths and thousandths % size == 0:
            return f"{thousandths // size}{unit}"
    return f"{thousandths}ms" if thousandths else "0s"


Duration = Annotated[
    timedelta,
    PlainValidator(parse),
    PlainSerializer(render, return_type=str),
    WithJsonSchema(
        {
            "type": "string",
            "maxLength": 32,
            "pattern": PATTERN,
            "x-kubernetes-validations": [
                {
                    "rule": "duration(self) <= duration('168h')",
                    "message": "must not be longer than a week (168h)",
                },
            ],
        },
    ),
]
"""A span of time as a Go duration string."""


def default(text: str) -> Any:
    """Return a field with this default, which the schema shows as text."""
    return Field(default=parse(text), json_schema_extra={"default": text})
