"""A ResourceSlice: devices, or the counters that devices of the same pool share (resource.k8s.io/v1)."""

from dataclasses import dataclass, field
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
    extra: dict[str, object] = field(default_factory=dict)
    """Spec fields of optional API features, undecoded (skipNodeOperations and the like)."""

    @classmethod
    def from_json(cls, raw: Json) -> "Slice":
        """Read a ResourceSlice; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        pool = reading.table(spec, "pool", at="spec")
        driver = reading.text(spec, "driver", at="spec")
        pool_name = reading.text(pool, "name", at="spec.pool")
        return cls(
            name=reading.text(metadata, "name", at="metadata", default=""),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            version=reading.text(metadata, "resourceVersion", at="metadata", default=""),
            pool=PoolId(driver, pool_name),
            generation=reading.number(pool, "generation", at="spec.pool", default=0),
            count=reading.number(pool, "resourceSliceCount", at="spec.pool", default=0),
            availability=Availability.from_json(spec, "spec"),
            devices=tuple(
                Device.from_json(row, driver=driver, pool=pool_name, at=path)
                for path, row in reading.rows(spec, "devices", at="spec")
            ),
            counter_sets=tuple(
                CounterSet(reading.text(row, "name", at=path), _COUNTERS.read(row, path, counters_from_json))
                for path, row in reading.rows(spec, "sharedCounters", at="spec")
            ),
            extra={key: value for key, value in spec.items() if key not in _KNOWN},
        )


_COUNTERS: Sharing[tuple[tuple[str, Quantity], ...]] = Sharing()

_KNOWN = frozenset(
    [
        "driver",
        "pool",
        "nodeName",
        "allNodes",
        "nodeSelector",
        "perDeviceNodeSelection",
        "devices",
        "sharedCounters",
    ]
)
