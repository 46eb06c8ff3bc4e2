"""A DeviceClass: selectors and driver parameters under a name (resource.k8s.io/v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.dra import reading
from apportion.dra.claim import Config, config_from_json, selectors_from_json
from apportion.dra.reading import Json


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """One DeviceClass in one version."""

    name: str
    selectors: tuple[str, ...] = ()
    """CEL texts, all of which must match; they are evaluated before those of the request."""
    config: tuple[Config, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    uid: str = ""
    version: str = ""
    created: str = ""
    """metadata.creationTimestamp (RFC 3339)."""
    extended_resource: str = ""
    """`spec.extendedResourceName`: pods may ask for its devices as for this extended resource (KEP-5004)."""
    unknown_selector: bool = False
    owners: tuple[str, ...] = ()
    """UIDs in metadata.ownerReferences."""

    @classmethod
    def from_json(cls, raw: Json) -> "DeviceClass":
        """Read a DeviceClass; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        selectors, unknown = selectors_from_json(spec, "spec")
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            selectors=selectors,
            config=tuple(config_from_json(spec, "spec")),
            labels=dict(reading.table(metadata, "labels", at="metadata")),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            version=reading.text(metadata, "resourceVersion", at="metadata", default=""),
            created=reading.text(metadata, "creationTimestamp", at="metadata", default=""),
            extended_resource=reading.text(spec, "extendedResourceName", at="spec", default=""),
            unknown_selector=unknown,
            owners=tuple(
                reading.text(owner, "uid", at=at, default="")
                for at, owner in reading.rows(metadata, "ownerReferences", at="metadata")
            ),
        )
