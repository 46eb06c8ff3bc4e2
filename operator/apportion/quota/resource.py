"""Resource: one entry of a quota, as amounts of 10^-9.

In: the entry of an AcceleratorQuota. Out: how much of it a charge, or at least a request, takes.
"""

from dataclasses import dataclass
from typing import TypeAlias

from apportion.api.quota import QuotaResource
from apportion.dra.claim import Request
from apportion.dra.device import qualify
from apportion.dra.quantity import NANO, Format, Quantity
from apportion.quota.charge import LEAST_SHARE, Charge

Selection: TypeAlias = tuple[str, str, str, str]
"""DeviceClass, profile, model and capacity of a resource; empty where it does not say."""


@dataclass(frozen=True, slots=True)
class Resource:
    """What is counted, what is guaranteed of it and where its limit is."""

    name: str
    device_class: str = ""
    profile: str = ""
    model: str = ""
    capacity: str = ""
    """Empty: devices are counted."""
    guaranteed: int = 0
    limit: int | None = None
    weight: int = 1
    form: Format = "DecimalSI"
    """How amounts are printed."""

    @classmethod
    def of(cls, entry: QuotaResource) -> "Resource":
        """Read an entry of a quota."""
        guaranteed = Quantity.parse(entry.guaranteed)
        limit = Quantity.parse(entry.limit) if entry.limit is not None else None
        forms = {amount.format for amount in (guaranteed, limit) if amount is not None}
        return cls(
            name=entry.name,
            device_class=entry.device_class or "",
            profile=entry.profile or "",
            model=entry.model or "",
            capacity=entry.capacity or "",
            guaranteed=guaranteed.nano,
            limit=limit.nano if limit is not None else None,
            weight=entry.weight,
            form="BinarySI"
            if "BinarySI" in forms or (entry.capacity or "").endswith("memory")
            else "DecimalSI",
        )

    @property
    def selection(self) -> Selection:
        """What it counts, as a key."""
        return self.device_class, self.profile, self.model, self.capacity

    def amount(self, charge: Charge) -> int:
        """Return how much of it a charge takes."""
        if (
            (self.device_class and charge.device_class != self.device_class)
            or (self.profile and charge.profile != self.profile)
            or (self.model and charge.model != self.model)
        ):
            return 0
        if not self.capacity:
            return charge.devices
        wanted = qualify(self.capacity, charge.driver)
        return next((amount for name, amount in charge.amounts if name == wanted), 0)

    def may_count(self, charge: Charge) -> bool:
        """Say whether a charge of a device that is not published may be one of it, though nobody knows how much of it."""
        if charge.published or (self.device_class and charge.device_class != self.device_class):
            return False
        if not self.capacity:
            return bool(self.profile or self.model) or charge.devices < NANO
        wanted = qualify(self.capacity, charge.driver)
        return all(name != wanted for name, _ in charge.amounts)

    def least(self, request: Request, *, shares: bool) -> int:
        """Return how much of it a request takes at least, whichever devices it gets; `shares`: some devices give shares.

        What depends on the devices (model, profile, a capacity that the request does not name) counts as nothing.
        """
        if request.admin_access or self.profile or self.model:
            return 0
        if self.device_class and request.device_class != self.device_class:
            return 0
        count = 1 if request.mode == "All" else request.count
        if self.capacity:
            asked = request.capacity.get(self.capacity)
            return count * asked.nano if asked is not None else 0
        return count * (LEAST_SHARE if shares else NANO)

    def is_unknown(self, request: Request) -> bool:
        """Say whether a request may count in it though nobody knows how much before devices are chosen."""
        if request.admin_access or (self.device_class and request.device_class != self.device_class):
            return False
        return bool(self.profile or self.model or (self.capacity and self.capacity not in request.capacity))

    def overlaps(self, other: "Resource") -> bool:
        """Say whether a device may count in both."""
        pairs = (
            (self.device_class, other.device_class),
            (self.profile, other.profile),
            (self.model, other.model),
        )
        return all(not mine or not theirs or mine == theirs for mine, theirs in pairs)

    def text(self, nano: int) -> str:
        """Print an amount."""
        return str(Quantity(nano, self.form))
