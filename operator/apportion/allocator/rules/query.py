"""Query: what claims request, without their names. Claims that request the same have one query, and share outcomes.

In: claims and device classes. Out: slots in order, each with its alternatives; BrokenInput where no cluster could serve
the claims. Limits: dra.md 1.6 (API constants of resource.k8s.io/v1).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from apportion.allocator.rules.features import Features
from apportion.dra.claim import Claim, Constraint, Request, RequestSlot
from apportion.dra.deviceclass import DeviceClass
from apportion.dra.quantity import Quantity
from apportion.dra.taint import Toleration
from apportion.errors import BrokenInput, TooMuch

MOST_RESULTS = 32
"""Devices per claim (API `AllocationResultsMaxSize`)."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """A request or subrequest with its class: one way to serve a slot. Compared by content."""

    class_selectors: tuple[str, ...]
    selectors: tuple[str, ...]
    everything: bool
    """Mode All: every device that matches."""
    count: int
    admin: bool
    tolerations: tuple[Toleration, ...]
    capacity: tuple[tuple[str, Quantity], ...]
    constraints: tuple[int, ...]
    """Constraints that cover it, by position in the query."""

    @property
    def amounts(self) -> Mapping[str, Quantity]:
        """The requested capacity by name."""
        return dict(self.capacity)


@dataclass(frozen=True, slots=True)
class Slot:
    """One request of one claim, with its alternatives in order of preference (`firstAvailable`)."""

    claim: int
    alternatives: tuple[Alternative, ...]


@dataclass(frozen=True, slots=True)
class AttributeConstraint:
    """A constraint: devices that agree (match) or differ (distinct) in an attribute."""

    attribute: str
    distinct: bool


class RequestNames(NamedTuple):
    """The claims, requests and classes behind a query, for messages and results."""

    claims: tuple[Claim, ...]
    slots: tuple[tuple[Claim, RequestSlot], ...]
    classes: Mapping[str, DeviceClass]

    def request(self, slot: int, alternative: int) -> Request:
        """Return the request, or the subrequest, behind an alternative."""
        return self.slots[slot][1].alternatives[alternative]

    def title(self, slot: int, alternative: int) -> str:
        """Return `claim NAME, request NAME`, for messages."""
        return f"claim {self.slots[slot][0].key}, request {self.request(slot, alternative).name}"

    def label(self, slot: int, alternative: int) -> str:
        """Return `request` or `request/subrequest`, as in `DeviceRequestAllocationResult.request`."""
        named = self.slots[slot][1]
        return f"{named.name}/{named.alternatives[alternative].name}" if named.prioritized else named.name


class Query:
    """What claims request. Compared by identity; `Queries` keeps one for all claims with equal text."""

    __slots__ = (
        "alternatives",
        "amounts",
        "classes",
        "configured",
        "constraints",
        "counted",
        "frame",
        "most",
        "plain",
        "slots",
        "texts",
    )

    def __init__(
        self,
        slots: tuple[Slot, ...],
        constraints: tuple[AttributeConstraint, ...],
        classes: Mapping[str, DeviceClass],
    ) -> None:
        # Lists, because a generator takes twice the time, and each new text makes a query.
        self.alternatives = tuple([alternative for slot in slots for alternative in slot.alternatives])
        """Those of all slots."""
        self.slots = slots
        self.constraints = constraints
        self.classes = classes
        self.texts = frozenset(
            [
                text
                for alternative in self.alternatives
                for text in (*alternative.class_selectors, *alternative.selectors)
            ]
        )
        """The text of every selector."""
        self.amounts = frozenset([name for one in self.alternatives for name, _ in one.capacity])
        """Names of the capacities that it requests."""
        self.counted = not any(one.everything or one.admin for one in self.alternatives)
        """Whether it requests numbers of devices, or of shares of them: no mode All, no admin access."""
        self.plain = self.counted and not self.amounts
        """Whether it requests only a number of devices: no mode All, admin access or capacity."""
        self.most = sum(
            max([MOST_RESULTS if one.everything else one.count for one in slot.alternatives])
            for slot in slots
        )
        """The most devices that it may be allocated."""
        self.configured = any(found.config for found in classes.values())
        """Whether a class has configuration for drivers."""
        self.frame: object = (
            tuple(
                [
                    (
                        slot.claim,
                        tuple(
                            [
                                (one.count, one.tolerations, one.constraints, one.capacity)
                                for one in slot.alternatives
                            ]
                        ),
                    )
                    for slot in slots
                ]
            ),
            constraints,
        )
        """Everything but the selectors that decides the outcome of a `counted` query."""


class NamedQuery(NamedTuple):
    """A query with the names of the claims that make it. A named tuple, because one is created per allocation."""

    query: Query
    names: RequestNames

    @classmethod
    def of(cls, query: Query, claims: Sequence[Claim]) -> "NamedQuery":
        """Return the query with the names of these claims."""
        named = tuple([(claim, slot) for claim in claims for slot in claim.slots])
        return cls(query, RequestNames(tuple(claims), named, query.classes))


def read_query(
    claims: Sequence[Claim],
    classes: Mapping[str, DeviceClass],
    features: Features,
    tolerations: tuple[Toleration, ...] = (),
) -> Query:
    """Read the claims against the classes; raises BrokenInput naming claim, request and reason."""
    slots: list[Slot] = []
    constraints: list[AttributeConstraint] = []
    used: dict[str, DeviceClass] = {}
    for position, claim in enumerate(claims):
        base = len(constraints)
        least = 0
        for slot in claim.slots:
            if slot.prioritized and not features.prioritized_list:
                raise BrokenInput(
                    f"claim {claim.key}, request {slot.name}: has subrequests, but the DRAPrioritizedList feature is"
                    " disabled"
                )
            alternatives = []
            for request in slot.alternatives:
                found = _check(claim, slot, request, classes, features)
                used[found.name] = found
                covering = tuple(
                    base + index
                    for index, constraint in enumerate(claim.constraints)
                    if constraint.covers(slot.name, request.name if slot.prioritized else None)
                )
                alternatives.append(_alternative(request, found, covering, tolerations))
            slots.append(Slot(position, tuple(alternatives)))
            least += min([0 if alternative.everything else alternative.count for alternative in alternatives])
        if least > MOST_RESULTS:
            raise TooMuch(
                f"claim {claim.key}: number of requested devices {least} exceeds the claim limit of {MOST_RESULTS}"
            )
        constraints.extend(
            _constraint(claim, index, constraint, features)
            for index, constraint in enumerate(claim.constraints)
        )
    return Query(tuple(slots), tuple(constraints), used)


def _check(
    claim: Claim, slot: RequestSlot, request: Request, classes: Mapping[str, DeviceClass], features: Features
) -> DeviceClass:
    where, named = f"claim {claim.key}, request {request.name}", f"{request.at}.deviceClassName"
    if request.capacity and not features.consumable_capacity:
        level = "subrequest" if slot.prioritized else "request"
        raise BrokenInput(
            f"claim {claim.key}, {level} {request.name}: has capacity requests, but the DRAConsumableCapacity feature is"
            " disabled"
        )
    if request.derived:
        field = f"{request.at}.derivedAttributes"
        raise BrokenInput(f"{where}: derived attributes are not known to this version", field=field)
    if request.unknown_selector:
        raise BrokenInput(
            f"{where}: a selector is not CEL; this version knows no other kind", field=request.at
        )
    if request.admin_access and not features.admin_access:
        raise BrokenInput(f"{where}: admin access is requested, but the feature is disabled")
    if not request.device_class:
        raise BrokenInput(f"{where}: missing device class name", field=named)
    found = classes.get(request.device_class)
    if found is None:
        raise BrokenInput(f"{where}: device class {request.device_class} does not exist", field=named)
    if found.unknown_selector:
        raise BrokenInput(f"class {found.name}: a selector is not CEL; this version knows no other kind")
    if request.mode not in {"ExactCount", "All"}:
        raise BrokenInput(
            f"{where}: unsupported count mode {request.mode}", field=f"{request.at}.allocationMode"
        )
    return found


def _alternative(
    request: Request, found: DeviceClass, covering: tuple[int, ...], tolerations: tuple[Toleration, ...]
) -> Alternative:
    return Alternative(
        class_selectors=found.selectors,
        selectors=request.selectors,
        everything=request.mode == "All",
        count=request.count,
        admin=request.admin_access,
        tolerations=(*request.tolerations, *tolerations),
        capacity=tuple(sorted(request.capacity.items())) if request.capacity else (),
        constraints=covering,
    )


def _constraint(claim: Claim, index: int, constraint: Constraint, features: Features) -> AttributeConstraint:
    where = f"claim {claim.key}, constraint #{index}"
    if constraint.match is not None:
        return AttributeConstraint(constraint.match, distinct=False)
    if constraint.distinct is not None and features.consumable_capacity:
        return AttributeConstraint(constraint.distinct, distinct=True)
    reason = (
        "distinctAttribute needs the DRAConsumableCapacity feature"
        if constraint.distinct
        else "unsupported type?"
    )
    raise BrokenInput(f"{where}: empty constraint ({reason})", field=constraint.at)


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """The error without the names of claim and class, so that claims with equal queries share it."""

    owner: Literal["class", "claim", "request"]
    """Object whose text causes the error."""
    reason: str
    field: str = ""


class NodeError(Exception):
    """An error that ends the search on this node. Upstream fails the whole pod on it (dra.md 1.5)."""

    def __init__(self, slot: int, alternative: int, cause: ErrorCause) -> None:
        super().__init__(cause.reason)
        self.slot = slot
        self.alternative = alternative
        self.cause = cause

    def as_broken_input(self, names: RequestNames) -> BrokenInput:
        """Return the error with the names of claim, request or class, for the user."""
        request = names.request(self.slot, self.alternative)
        match self.cause.owner:
            case "class":
                title = f"class {request.device_class}"
            case "claim":
                title = f"claim {names.slots[self.slot][0].key}"
            case _:
                title = names.title(self.slot, self.alternative)
        field = f"{request.at}.{self.cause.field}" if request.at and self.cause.field else request.at
        return BrokenInput(
            f"{title}: {self.cause.reason}", field="" if self.cause.owner == "class" else field
        )
