"""AcceleratorQuota: how much of the cluster's devices some namespaces may have, and what is theirs when they ask for it."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from apportion.api.model import ClassName, Conditions, Model, ObjectMeta, ProfileName, listed, require_amount
from apportion.api.selector import LabelSelector
from apportion.dra.quantity import Quantity

_AMOUNT = r"^[0-9]+(\.[0-9]{1,3})?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei)?$"
_LABEL = r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

Amount = Annotated[
    int | str,
    AfterValidator(require_amount),
    Field(json_schema_extra={"minimum": 0, "maxLength": 32, "pattern": _AMOUNT}),
]
"""A number, or a quantity as Kubernetes writes it (40Gi, 500m)."""
UsedAmount = Annotated[str, Field(max_length=32)]
"""A quantity."""
ResourceName = Annotated[str, Field(min_length=1, max_length=63, pattern=_LABEL)]
"""A name within the quota."""
AmountName = Annotated[
    str, Field(min_length=1, max_length=96, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9_-]+$")
]
"""The name of a capacity or counter, with or without its driver."""


class QuotaResource(Model):
    """One kind of devices that the quota counts, and how much of it the namespaces may have together."""

    rules = (
        {
            "rule": "!has(self.guaranteed) || !has(self.limit) ||"
            " quantity(string(self.guaranteed)).compareTo(quantity(string(self.limit))) <= 0",
            "message": "guaranteed must not exceed limit",
            "fieldPath": ".guaranteed",
        },
        {
            "rule": "has(self.deviceClass) || has(self.profile) || has(self.model) || has(self.capacity)",
            "message": "one of deviceClass, profile, model and capacity is needed",
        },
    )

    name: ResourceName
    """Name in status, Events and messages; each may appear once."""
    device_class: ClassName | None = None
    """Count only what claims ask for by this DeviceClass. It need not exist yet."""
    profile: ProfileName | None = None
    """Count only partitions of this MIG profile or Ascend vNPU template."""
    model: Annotated[str, Field(min_length=1, max_length=63)] | None = None
    """Count only devices of this model, partitions included: the attribute productName of GPUs, model of NPUs."""
    capacity: AmountName | None = None
    """Count this capacity (memory, aicore) of the devices: of a share what it consumes, of a partition or a whole device what it
    publishes, or else takes of the counter of this name. A name without a driver means that of every driver. Absent:
    count the devices; a share counts as the largest part that it consumes of any capacity of its device, and at least as a hundredth."""
    guaranteed: Amount = 0
    """How much of it the namespaces get before others of the cohort get more than is guaranteed to them."""
    limit: Amount | None = None
    """How much of it the namespaces have together at most. Absent: as much as there is."""
    weight: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """How much of what is beyond the guarantees the namespaces get, relative to the others of the cohort."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.limit is not None and Quantity.parse(self.limit) < Quantity.parse(self.guaranteed):
            raise ValueError("guaranteed must not exceed limit")
        if not (self.device_class or self.profile or self.model or self.capacity):
            raise ValueError("one of deviceClass, profile, model and capacity is needed")
        return self


class Reclaim(StrEnum):
    """Who is evicted for what is guaranteed."""

    NEVER = "Never"
    ANY = "Any"


class AcceleratorQuotaSpec(Model):
    """The namespaces, and what they may have together."""

    rules = (
        {
            "rule": "!has(self.reclaimWithinCohort) || self.reclaimWithinCohort == 'Never' || has(self.cohort)",
            "message": "reclaimWithinCohort needs a cohort",
            "fieldPath": ".reclaimWithinCohort",
        },
    )

    namespace_selector: LabelSelector
    """Labels of the namespaces that share the quota; an empty selector selects all of them. A namespace that two quotas select
    obeys the older one; both get a condition. A namespace that no quota selects has no limit and no guarantee."""
    cohort: Annotated[str, Field(min_length=1, max_length=63, pattern=_LABEL)] | None = None
    """Quotas of one cohort share what is beyond their guarantees by weight: the one with the smaller dominant share goes first.
    A name, not an object. Absent: nobody has a turn before others because of this quota."""
    reclaim_within_cohort: Reclaim = Reclaim.NEVER
    """Whether pods are evicted for what is guaranteed. Never: a demand within the guarantee waits until borrowers end. Any: pods of other
    quotas of the cohort that say Any, too, go for it, whatever their priority, as far as these have more than is guaranteed to them; and
    so do pods of this one. In turn nobody else's pods evict what is within the guarantee. The policy's preemption.after, minRuntime and
    cooldown hold, and PodDisruptionBudgets."""
    resources: Annotated[tuple[QuotaResource, ...], listed("map", key="name", least=1, most=32)]
    """What is counted. Devices that no entry counts are free to all; a device that several entries count has to fit all of them."""

    @model_validator(mode="after")
    def _of_a_cohort(self) -> Self:
        if self.reclaim_within_cohort is not Reclaim.NEVER and self.cohort is None:
            raise ValueError("reclaimWithinCohort needs a cohort")
        return self


QuotaReason = Literal["WithinGuarantee", "Borrowing", "LimitReached", "BeyondLimit"]
"""How the use of a resource stands to its guarantee and limit."""


class ResourceUse(Model):
    """The use of one resource of the quota."""

    name: ResourceName
    """Name of the resource in the spec."""
    used: UsedAmount
    """How much of it the namespaces have, decisions that are being written included."""
    borrowed: UsedAmount = "0"
    """How much of that is beyond the guarantee."""
    pending: Annotated[int, Field(ge=0)] = 0
    """Waiting demands that would exceed the limit of this resource."""
    reason: QuotaReason
    """WithinGuarantee; Borrowing: beyond it; LimitReached: nothing is left, or less than somebody waits for; BeyondLimit: more
    is used than the limit, which was lowered, or which others did not heed."""


class AcceleratorQuotaStatus(Model):
    """Current use of the quota."""

    namespaces: Annotated[int, Field(ge=0)] = 0
    """Namespaces that obey this quota."""
    pending: Annotated[int, Field(ge=0)] = 0
    """Demands (pods, or claims without one) of these namespaces that wait for devices, whatever the reason."""
    share: Annotated[int, Field(ge=0)] = 0
    """Weighted dominant share in thousandths: the largest part of any resource of the cluster that is used beyond the guarantee,
    divided by the weight."""
    summary: Annotated[str, Field(max_length=1024)] = ""
    """Use and limit of each resource in one line, for people."""
    resources: Annotated[tuple[ResourceUse, ...], listed("map", key="name", most=32)] = ()
    """Use of each resource."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status describes."""
    conditions: Conditions = ()
    """Details, by type. Accepted: False when the quota cannot work as written. Resolved: False while a name in the spec is that of
    nothing in the cluster (a DeviceClass, a profile, a model, a capacity; no namespace is selected); the rest of the quota is followed all the same.
    Exclusive: False when another quota selects some of its namespaces, too. Served: False while demands wait, with the reason. Joined, where
    there is a cohort: False while no other quota is of it."""


class AcceleratorQuota(Model):
    """How much of the cluster's devices some namespaces may have together; charged when devices are allocated."""

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["AcceleratorQuota"] = "AcceleratorQuota"
    metadata: ObjectMeta
    spec: AcceleratorQuotaSpec
    """The namespaces, and what they may have together."""
    status: AcceleratorQuotaStatus = AcceleratorQuotaStatus()
    """Current use of the quota."""
