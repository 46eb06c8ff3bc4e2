"""The fields of a Node that decide which pods fit (core/v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from apportion.dra import reading
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json
from apportion.dra.taint import Taint
from apportion.errors import BrokenInput

OPTIONAL_NODE_OPERATIONS = "DRAOptionalNodeOperations"
"""Declared by a kubelet that leaves out what `skipNodeOperations` of an allocation says (KEP-5945, alpha in 1.37)."""

Resources = Mapping[str, int]
"""Amounts by resource name: cpu in thousandths of a core, everything else in its own unit, rounded up."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is read of a node: versions of it that differ in nothing of this, as after a heartbeat, are equal."""

    name: str
    uid: str
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Resources = field(default_factory=dict)
    declared_features: tuple[str, ...] = ()
    """`status.declaredFeatures`."""

    @classmethod
    def from_json(cls, raw: Json) -> "Node":
        """Read a Node; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        spec = reading.table(raw, "spec")
        status = reading.table(raw, "status")
        return cls(
            name=reading.text(metadata, "name", at="metadata"),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            labels=dict(reading.table(metadata, "labels", at="metadata")),
            taints=tuple(Taint.from_json(row, path) for path, row in reading.rows(spec, "taints", at="spec")),
            unschedulable=reading.flag(spec, "unschedulable", at="spec"),
            allocatable=resources(reading.table(status, "allocatable", at="status"), "status.allocatable"),
            declared_features=reading.words(status, "declaredFeatures", at="status"),
        )


_MOST = 2**63 - 1
"""No node has so much. The API server stores larger requests, which floating-point arithmetic cannot."""


def resources(raw: Json, at: str) -> dict[str, int]:
    """Read a `ResourceList`."""
    found = {}
    for name, amount in raw.items():
        try:
            quantity = Quantity.parse(amount)
        except BrokenInput as error:
            raise BrokenInput(error.reason, field=f"{at}[{name}]") from None
        found[name] = min(quantity.milli if name == "cpu" else quantity.value, _MOST)
    return found
