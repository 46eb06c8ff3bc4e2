"""A ResourceClaim: its requests, and its allocation if there is one (resource.k8s.io/v1)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from apportion.dra import reading
from apportion.dra.allocation import Allocation
from apportion.dra.quantity import Quantity
from apportion.dra.reading import Json, Sharing
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput

PROTECTION_FINALIZER = "resource.kubernetes.io/delete-protection"
"""controller-manager clears the allocation only of claims with this finalizer (API const `Finalizer`)."""
_MERGED = "ancient-changes"
"""Field manager for which the API server merges the oldest entries of more than ten (apimachinery, `capManagersManager`)."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request, or one subrequest of a prioritized list."""

    name: str
    device_class: str
    selectors: tuple[str, ...] = ()
    """CEL texts, all of which must match."""
    mode: str = "ExactCount"
    """ExactCount or All."""
    count: int = 1
    admin_access: bool = False
    tolerations: tuple[Toleration, ...] = ()
    tolerations_as_written: tuple[Mapping[str, Any], ...] = ()
    """The same as JSON: results hold a copy (API `DeviceRequestAllocationResult.tolerations`)."""
    capacity: Mapping[str, Quantity] = field(default_factory=dict)
    """Requested amounts of consumable capacity, by capacity name."""
    unknown_selector: bool = False
    """A selector of another kind than CEL is present; no device satisfies it."""
    derived: bool = False
    """It has `derivedAttributes` (KEP-6080, alpha in 1.37), which hide published ones of their names from constraints; no device satisfies it."""
    at: str = ""
    """Path of the request inside the claim, for error messages."""


@dataclass(frozen=True, slots=True)
class RequestSlot:
    """A request as the user writes it: `exactly` one alternative, or several in order of preference."""

    name: str
    alternatives: tuple[Request, ...]
    prioritized: bool = False
    """Whether it is a `firstAvailable` list; results then name `request/subrequest`."""

    @property
    def length(self) -> int:
        """How many characters its selectors have: of all that it is made of only these may be many."""
        return sum(len(text) for request in self.alternatives for text in request.selectors)


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of several requests must agree, or differ, in an attribute."""

    requests: tuple[str, ...]
    """Empty means every request of the claim."""
    match: str | None = None
    distinct: str | None = None
    at: str = ""

    def covers(self, request: str, subrequest: str | None = None) -> bool:
        """Say whether it applies to a request, or to one subrequest of it."""
        if not self.requests or request in self.requests:
            return True
        return subrequest is not None and f"{request}/{subrequest}" in self.requests


@dataclass(frozen=True, slots=True)
class Config:
    """Driver parameters that are copied to the allocation (`opaque`)."""

    requests: tuple[str, ...]
    opaque: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Consumer:
    """An object that has reserved the claim (`status.reservedFor`)."""

    resource: str
    name: str
    uid: str
    api_group: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """One ResourceClaim in one version."""

    namespace: str
    name: str
    uid: str = ""
    version: str = ""
    """metadata.resourceVersion; a write with an older one is refused."""
    slots: tuple[RequestSlot, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    config: tuple[Config, ...] = ()
    allocation: Allocation | None = None
    reserved_for: tuple[Consumer, ...] = ()
    finalizers: tuple[str, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    owner_pod: str | None = None
    """UID of the pod that the claim was made for from a template."""
    deleting: bool = False
    created: str = ""
    """metadata.creationTimestamp (RFC 3339), for queue order."""
    allocated_by: str = ""
    """Field manager that wrote `status.allocation`, from metadata.managedFields; empty when unknown."""
    unread_requests: tuple[tuple[str, str], ...] = ()
    """Of a claim that cannot be read, which has no slots: requests, as results name them, with the DeviceClass of each."""

    @property
    def key(self) -> str:
        """`namespace/name`, for messages."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def classes(self) -> frozenset[str]:
        """The DeviceClasses that it names."""
        return frozenset(request.device_class for slot in self.slots for request in slot.alternatives)

    @classmethod
    def from_json(cls, raw: Json) -> "Claim":
        """Read a ResourceClaim; raises BrokenInput naming the field."""
        metadata = reading.table(raw, "metadata")
        status = reading.table(raw, "status")
        devices = reading.table(reading.table(raw, "spec"), "devices", at="spec")
        allocation = reading.table(status, "allocation", at="status")
        pods = [
            owner
            for _, owner in reading.rows(metadata, "ownerReferences", at="metadata")
            if owner.get("kind") == "Pod" and owner.get("controller")
        ]
        return cls(
            namespace=reading.text(metadata, "namespace", at="metadata", default=""),
            name=reading.text(metadata, "name", at="metadata", default=""),
            uid=reading.text(metadata, "uid", at="metadata", default=""),
            version=reading.text(metadata, "resourceVersion", at="metadata", default=""),
            slots=_SLOTS.read(devices.get("requests"), "spec.devices", _slots),
            constraints=_CONSTRAINTS.read(devices.get("constraints"), "spec.devices", _constraints)
            if devices.get("constraints")
            else (),
            config=tuple(config_from_json(devices, "spec.devices")),
            allocation=Allocation.from_json(allocation) if status.get("allocation") is not None else None,
            reserved_for=tuple(
                Consumer(
                    resource=reading.text(row, "resource", at=path, default=""),
                    name=reading.text(row, "name", at=path, default=""),
                    uid=reading.text(row, "uid", at=path, default=""),
                    api_group=reading.text(row, "apiGroup", at=path, default=""),
                )
                for path, row in reading.rows(status, "reservedFor", at="status")
            ),
            finalizers=reading.words(metadata, "finalizers", at="metadata"),
            annotations=dict(reading.table(metadata, "annotations", at="metadata")),
            labels=dict(reading.table(metadata, "labels", at="metadata")),
            owner_pod=pods[0].get("uid") if pods else None,
            deleting=metadata.get("deletionTimestamp") is not None,
            created=reading.text(metadata, "creationTimestamp", at="metadata", default=""),
            allocated_by=_allocator(metadata),
        )


def _slots(raw: Any, at: str) -> tuple[RequestSlot, ...]:
    return tuple(_slot(row, path) for path, row in reading.rows({"requests": raw}, "requests", at=at))


def _constraints(raw: Any, at: str) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(
            requests=reading.words(row, "requests", at=path),
            match=reading.text(row, "matchAttribute", at=path, default="") or None,
            distinct=reading.text(row, "distinctAttribute", at=path, default="") or None,
            at=path,
        )
        for path, row in reading.rows({"constraints": raw}, "constraints", at=at)
    )


# Claims made from one template have equal requests, which become one object: upper layers compare them by identity.
_SLOTS: Sharing[tuple[RequestSlot, ...]] = Sharing(8192)
_CONSTRAINTS: Sharing[tuple[Constraint, ...]] = Sharing(8192)


def config_from_json(devices: Json, at: str) -> list[Config]:
    """Read the `config` list of a claim's devices or of a class."""
    return [
        Config(
            requests=reading.words(row, "requests", at=path),
            opaque=reading.opaque(row, "opaque", at=path),
        )
        for path, row in reading.rows(devices, "config", at=at)
    ]


def selectors_from_json(raw: Json, at: str) -> tuple[tuple[str, ...], bool]:
    """Read CEL selectors; the flag is set when there is a selector of another kind."""
    texts, unknown = [], False
    for path, row in reading.rows(raw, "selectors", at=at):
        cel = reading.table(row, "cel", at=path)
        if cel:
            texts.append(reading.text(cel, "expression", at=f"{path}.cel"))
        else:
            unknown = True
    return tuple(texts), unknown


def _allocator(metadata: Json) -> str:
    for path, row in reading.rows(metadata, "managedFields", at="metadata"):
        fields = reading.table(row, "fieldsV1", at=path)
        if "f:allocation" in reading.table(fields, "f:status", at=path):
            manager = reading.text(row, "manager", at=path, default="")
            return "" if manager == _MERGED else manager
    return ""


def _slot(raw: Json, at: str) -> RequestSlot:
    name = reading.text(raw, "name", at=at)
    if raw.get("exactly") is not None:
        exact = reading.table(raw, "exactly", at=at)
        return RequestSlot(name, (_request(exact, name, reading.join(at, "exactly")),))
    alternatives = tuple(
        _request(row, reading.text(row, "name", at=path), path)
        for path, row in reading.rows(raw, "firstAvailable", at=at)
    )
    if not alternatives:
        raise BrokenInput("a request needs `exactly` or `firstAvailable`", field=at)
    return RequestSlot(name, alternatives, prioritized=True)


def _request(raw: Json, name: str, at: str) -> Request:
    selectors, unknown = selectors_from_json(raw, at)
    wanted = reading.table(reading.table(raw, "capacity", at=at), "requests", at=f"{at}.capacity")
    return Request(
        name=name,
        device_class=reading.text(raw, "deviceClassName", at=at, default=""),
        selectors=selectors,
        mode=reading.text(raw, "allocationMode", at=at, default="") or "ExactCount",
        count=reading.number(raw, "count", at=at, default=0) or 1,
        admin_access=reading.flag(raw, "adminAccess", at=at),
        tolerations=tuple(
            Toleration.from_json(row, path) for path, row in reading.rows(raw, "tolerations", at=at)
        ),
        tolerations_as_written=tuple(dict(row) for _, row in reading.rows(raw, "tolerations", at=at)),
        capacity={name: Quantity.parse(amount) for name, amount in wanted.items()},
        unknown_selector=unknown,
        derived=bool([*reading.rows(raw, "derivedAttributes", at=at)]),
        at=at,
    )
