"""A ResourceSlice: devices, or the counters that devices of the same pool share (resource.k8s.io/v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from apportion.dra import reading
from apportion.dra.device import Device, counters_from_json
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json, Sharing
from apportion.dra.selection import Availability


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Counters that partitions of one device draw from (KEP-4815)."""

    name: str
    counters: tuple[tuple[str, Quantity], ...]


class PoolId(NamedTuple):
    """Driver and pool name; pools of different drivers may have one name (often the node's).

    A named tuple: it is the key of the tables that are read most, and a dataclass hashes five times slower.
    """

    driver: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """One ResourceSlice. Immutable; identity is (uid, version)."""

    name: str
    uid: str
    version: str
    """metadata.resourceVersion."""
    pool: PoolId
    generation: int
    count: int
    """How many slices the pool has in this generation (`resourceSliceCount`)."""
    availability: Availability
    devices: tuple[Device, ...] = ()
    counter_sets: tuple[CounterSet, ...] = ()
    unread: bool = False
    """Whether its devices and counters cannot be read: there is more in its pool than is known."""
    skip_node_operations: tuple[str, ...] = ()
    """What kubelet leaves out for claims with its devices (alpha in 1.37): `*`, NodePrepareResources, NodeUnprepareResources."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, raw: Json) -> "Slice":
        """Read a ResourceSlice; raises BrokenInput naming the field."""
        without = cls.without_devices(raw)
        spec, pool = raw["spec"], without.pool
        return replace(
            without,
            unread=False,
            devices=tuple(
                Device.from_json(row, driver=pool.driver, pool=pool.name, at=path)
                for path, row in reading.rows(spec, "devices", at="spec")
            ),
            counter_sets=tuple(
                CounterSet(reading.text(row, "name", at=path), _COUNTERS.read(row, path, counters_from_json))
                for path, row in reading.rows(spec, "sharedCounters", at="spec")
            ),
            skip_node_operations=reading.words(spec, "skipNodeOperations", at="spec"),
        )

    @classmethod
    def without_devices(cls, raw: Json) -> "Slice":
        """Read what a ResourceSlice says of its pool and its nodes, as one whose devices cannot be read; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        pool = reading.table(spec, "pool", at="spec")
        return cls(
            name=reading.text(metadata, "name", at="metadata", default=""),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            version=reading.text(metadata, "resourceVersion", at="metadata", default=""),
            pool=PoolId(reading.text(spec, "driver", at="spec"), reading.text(pool, "name", at="spec.pool")),
            generation=reading.number(pool, "generation", at="spec.pool", default=0),
            count=reading.number(pool, "resourceSliceCount", at="spec.pool", default=0),
            availability=Availability.from_json(spec, "spec"),
            unread=True,
            annotations=dict(reading.table(metadata, "annotations", at="metadata")),
        )


_COUNTERS: Sharing[tuple[tuple[str, Quantity], ...]] = Sharing()
