"""A Namespace, as far as quotas and pod affinity need it (v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.dra import reading
from apportion.dra.reading import Json


@dataclass(frozen=True, slots=True)
class Namespace:
    """One namespace."""

    name: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Json) -> "Namespace":
        """Read a Namespace; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        return cls(
            name=reading.text(metadata, "name", at="metadata", default=""),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            labels=dict(reading.table(metadata, "labels", at="metadata")),
        )
