"""Zones of a volume: its topology labels, by which kube-scheduler's plugin VolumeZone keeps a pod in the zone or region of a bound volume.

In: labels of a PersistentVolume. Out: whether a node suits them. In-tree volumes of before CSI migration have these labels, often without node affinity.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_ZONE, _REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
_PRESENT: Final = {
    "failure-domain.beta.kubernetes.io/zone": _ZONE,
    "failure-domain.beta.kubernetes.io/region": _REGION,
    _ZONE: _ZONE,
    _REGION: _REGION,
}
"""The label of today by each that counts."""
_BETWEEN: Final = "__"
"""Stands between the zones of a volume that is in several (`LabelMultiZoneDelimiter`)."""


@dataclass(frozen=True, slots=True)
class VolumeZones:
    """What the labels of a volume ask of its pod's node; without any, nothing."""

    allowed: tuple[tuple[str, frozenset[str]], ...] = ()
    """Values by label."""

    @classmethod
    def of(cls, labels: Mapping[str, str]) -> "VolumeZones":
        """Read labels; one with an empty zone counts for nothing (`LabelZonesToSet`)."""
        found = {
            key: frozenset(zone.strip() for zone in labels[key].split(_BETWEEN))
            for key in _PRESENT
            if isinstance(labels.get(key), str)
        }
        return cls(tuple((key, zones) for key, zones in found.items() if "" not in zones))

    def allow(self, labels: Mapping[str, str]) -> bool:
        """Say whether a node with these labels suits; one without any topology label does (a cluster of one zone)."""
        return not any(key in labels for key in _PRESENT) or all(
            labels.get(key, labels.get(_PRESENT[key])) in zones for key, zones in self.allowed
        )
