"""Fields of a later release in what agents write down: this one leaves them out, and reads the others (ADR 38).

In: a dataclass, a JSON object. Out: what the dataclass has a field for.
"""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any


def without_later(kind: type[Any], raw: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of `raw` that are fields of the dataclass `kind`."""
    return {field.name: raw[field.name] for field in fields(kind) if field.name in raw}
