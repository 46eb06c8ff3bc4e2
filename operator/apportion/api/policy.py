"""AllocationPolicy: which DeviceClasses apportion manages, and how it chooses among their devices."""

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from apportion.api import duration
from apportion.api.duration import Duration
from apportion.api.groupladder import GroupLadderRung
from apportion.api.ladder import LadderRung, LadderScope
from apportion.api.model import ClassName, Conditions, Model, ObjectMeta, ProfileName, listed
from apportion.api.selector import LabelSelector


class Strategy(StrEnum):
    """How to choose among devices and nodes that fit."""

    LEAST_FRAGMENTATION = "LeastFragmentation"
    PACK = "Pack"
    SPREAD = "Spread"
    FIRST_FIT = "FirstFit"


class DemandSource(StrEnum):
    """Where the expected demand comes from."""

    LEARNED = "Learned"
    PROFILES = "Profiles"


class QueueOrder(StrEnum):
    """Which pending claims go first."""

    PRIORITY = "Priority"
    FIFO = "FIFO"


class PolicyClasses(Model):
    """The DeviceClasses that a policy covers."""

    rules = (
        {
            "rule": "(has(self.names) && size(self.names) > 0) || has(self.selector)",
            "message": "names or selector is needed",
        },
    )

    names: Annotated[tuple[ClassName, ...], listed("set", most=64)] = ()
    """Names of DeviceClasses. They need not exist yet."""
    selector: LabelSelector | None = None
    """Labels of DeviceClasses; an empty selector selects all of them. The policy covers a class that is named or
    selected."""

    @model_validator(mode="after")
    def _names_or_selector(self) -> Self:
        if not self.names and self.selector is None:
            raise ValueError("names or selector is needed")
        return self


class ProfileShare(Model):
    """Share of one profile in the demand."""

    profile: ProfileName
    """MIG profile or Ascend vNPU template."""
    weight: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Share of the demand, relative to the other profiles' weights."""


class Demand(Model):
    """The demand that LeastFragmentation keeps room for."""

    rules = (
        {
            # The API server evaluates this on the default `{}` too, before it fills in the field's own default.
            "rule": "(has(self.source) && self.source == 'Profiles')"
            " == (has(self.profiles) && size(self.profiles) > 0)",
            "message": "source Profiles needs profiles, source Learned takes none",
        },
    )

    source: DemandSource = DemandSource.LEARNED
    """Learned: what recent claims asked for. Profiles: the mix below."""
    profiles: Annotated[tuple[ProfileShare, ...], listed("map", key="profile", most=64)] = ()
    """The expected mix, one entry for each profile; only with source Profiles."""

    @model_validator(mode="after")
    def _learned_or_profiles(self) -> Self:
        if (self.source == DemandSource.PROFILES) != bool(self.profiles):
            raise ValueError("source Profiles needs profiles, source Learned takes none")
        return self


class WarmPartitions(Model):
    """Partitions of one profile that are kept ready."""

    profile: ProfileName
    """MIG profile or Ascend vNPU template."""
    count: Annotated[int, Field(ge=0, le=10_000)]
    """Idle partitions of this profile to keep, in the whole cluster. They are removed when a claim needs their
    place."""


class PartitionSettings(Model):
    """How dynamic partitions are kept and released."""

    idle_timeout: Duration = duration.default("300s")
    """How long a released partition is kept for the next claim before it is removed, as a duration (300s,
    1h30m). 0s removes it at once."""
    warm: Annotated[tuple[WarmPartitions, ...], listed("map", key="profile", most=64)] = ()
    """Idle partitions to keep ready, one entry for each profile. Default: none."""
    wait_for_ready: bool = True
    """True: the gate of a pod is removed when its partition is cut, or its whole card is free of partitions, so that the pod
    can still get another one if that fails. False: the gate is removed when the allocation is written, and the pod waits on the node."""


class Autoscale(StrEnum):
    """When autoscalers see pods that wait for devices."""

    NEVER = "Never"
    WHEN_NOTHING_FITS = "WhenNothingFits"
    WHEN_FULL = "WhenFull"


class Queue(Model):
    """The order of pending claims, and who hears of them."""

    order: QueueOrder = QueueOrder.PRIORITY
    """Priority: claims of pods with a higher priority first, then older ones. FIFO: older ones first."""
    reserve_after: Duration = duration.default("60s")
    """How old a pod that cannot be served is when devices are reserved for it, as a duration (60s, 10m); 0s: at once. They are
    those that it can have first, by the runtimes that other pods declare. Until then others get them only if they end before
    (annotation apportion.dev/max-runtime, or activeDeadlineSeconds of the pod), or have a higher priority."""
    most_reserved: Annotated[int, Field(ge=0, le=64)] = 8
    """For how many pods, or pod groups, devices are reserved at once: the first of the queue. 0: for none."""
    autoscale: Autoscale = Autoscale.WHEN_NOTHING_FITS
    """When cluster autoscalers see a pod that waits for devices as unschedulable (condition PodScheduled); it keeps its scheduling
    gate. WhenNothingFits: no node could serve it even if everything were free. WhenFull: it has waited for ten seconds.
    Never: they do not."""


class PreemptionMode(StrEnum):
    """Whose pods go for a claim that waits."""

    NEVER = "Never"
    LOWER_PRIORITY = "LowerPriority"


class Preemption(Model):
    """Whether pods are evicted for claims that wait."""

    mode: PreemptionMode = PreemptionMode.NEVER
    """Never: nobody is evicted for a higher priority. LowerPriority: a claim that waits gets the devices of pods with a lower priority, the
    fewest that are enough, and only of pods all of whose claims obey policies with this mode. PodDisruptionBudgets and a pod's
    preemptionPolicy: Never are respected. What is guaranteed by an AcceleratorQuota is taken back as that says, in either mode."""
    after: Duration = duration.default("30s")
    """How long a claim waits before pods are evicted for it, as a duration (30s, 5m)."""
    min_runtime: Duration = duration.default("10m")
    """How long a pod has had its devices before it may be evicted."""
    cooldown: Duration = duration.default("10m")
    """After evictions that were in vain, how long a namespace waits before pods are evicted for it again; doubled each time, up to
    a day."""


class SharingStrategy(StrEnum):
    """What divides a GPU among claims."""

    TIME_SLICING = "TimeSlicing"
    MPS = "MPS"


class NodeSharing(Model):
    """Nodes whose GPUs serve several claims at once."""

    node_selector: LabelSelector
    """Labels of the nodes; an empty selector selects all of them."""
    strategy: SharingStrategy = SharingStrategy.TIME_SLICING
    """TimeSlicing: the claims' programs take turns, and their memory is counted, not limited. MPS: they compute at once through a
    control daemon, which keeps their shares of memory and cores."""
    most_claims: Annotated[int, Field(ge=1, le=256)] = 10
    """How many claims one GPU serves at most. A claim that asks for no memory or cores gets the GPU's divided by this."""


class AllocationPolicySpec(Model):
    """Which DeviceClasses are managed, and how their devices are chosen."""

    rules = (
        {
            "rule": "!has(self.ladder) ||"
            " self.ladder.all(a, self.ladder.exists_one(b, b.attribute == a.attribute))",
            "message": "an attribute may appear once",
            "fieldPath": ".ladder",
        },
    )

    device_classes: PolicyClasses
    """DeviceClasses that this policy covers. A class that two policies cover obeys the older policy; the newer one
    gets a condition. Classes with the label apportion.dev/managed=true are managed without a policy too, with
    this kind's defaults."""
    strategy: Strategy = Strategy.LEAST_FRAGMENTATION
    """How to choose among devices that fit. LeastFragmentation: keep room for the partitions that are asked for.
    Pack: fill nodes and cards that are in use. Spread: take empty ones. FirstFit: what kube-scheduler would take."""
    ladder: Annotated[tuple[LadderRung, ...], listed("atomic", most=16)] | None = None
    """Which devices are close to each other, closest level first; a preference, not a requirement (for that the claim has
    matchAttribute). All devices of a pod are compared: the worst level among the pairs counts first, then
    the sum of the levels, then the strategy; strategy FirstFit ignores it. Absent: same card, NVLink or
    HCCS group, PCIe root, NUMA node. Empty: no preference."""
    ladder_scope: LadderScope = LadderScope.CLUSTER
    """What the ladder decides. Cluster: also the node: closer devices take precedence over the strategy's choice of a
    node. Node: only the devices on the node that the strategy chooses."""
    group_ladder: Annotated[tuple[GroupLadderRung, ...], listed("map", key="nodeLabel", most=8)] = ()
    """Which nodes are close to each other for the pods of one group (NVLink domain, supernode, rack, block), closest level
    first. All pods of a group go to one value of the closest label that has room for all, else to as few values as it
    goes; this takes precedence over the strategy. A group's own annotation or PodGroup adds a level. Default: none."""
    demand: Demand = Demand()
    """The demand that LeastFragmentation keeps room for."""
    partitions: PartitionSettings = PartitionSettings()
    """How dynamic partitions are kept and released."""
    unused_timeout: Duration = duration.default("60s")
    """How long an allocation is kept that no pod uses, as a duration (60s), before it is given back. An allocation
    of a pod that no scheduler takes is given back after the same time if others wait for its devices. Claims with the annotation apportion.dev/allocation: Immediate keep theirs."""
    queue: Queue = Queue()
    """The order of pending claims, and when autoscalers see their pods."""
    preemption: Preemption = Preemption()
    """Whether pods are evicted for claims that wait. Default: nobody is."""
    sharing: Annotated[tuple[NodeSharing, ...], listed("atomic", most=16)] = ()
    """Nodes whose whole GPUs are shared, whatever their DeviceClass: claims ask for a part of one (`capacity.requests`). The
    first entry that selects a node counts; of two policies with one, the older policy. Default: none."""


MOST_CLASSES = 1024
"""Names of classes in a status; more are left out."""


class AllocationPolicyStatus(Model):
    """Current effect of the policy."""

    managed_classes: Annotated[
        tuple[Annotated[str, Field(max_length=253)], ...], listed("set", most=MOST_CLASSES)
    ] = ()
    """Existing DeviceClasses that obey this policy."""
    pending: Annotated[int, Field(ge=0)] = 0
    """Claims of these classes that wait for devices."""
    allocated: Annotated[int, Field(ge=0)] = 0
    """Claims of these classes that have their devices."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The metadata.generation that this status describes."""
    conditions: Conditions = ()
    """Details, by type. Accepted: False when the policy overlaps another one. Resolved: False while a name in the spec is that of
    nothing in the cluster (a DeviceClass, a profile, an attribute, the label of a node); the rest of the policy is followed all the same. Warm, where partitions are kept ready:
    False while no card has room for all of them."""


class AllocationPolicy(Model):
    """Which DeviceClasses apportion manages, and how it chooses among their devices."""

    api_version: Literal["apportion.dev/v1alpha1"] = "apportion.dev/v1alpha1"
    kind: Literal["AllocationPolicy"] = "AllocationPolicy"
    metadata: ObjectMeta
    spec: AllocationPolicySpec
    """Which DeviceClasses are managed, and how their devices are chosen."""
    status: AllocationPolicyStatus = AllocationPolicyStatus()
    """Current effect of the policy."""


DEFAULT_POLICY = AllocationPolicySpec(
    device_classes=PolicyClasses(selector=LabelSelector(match_labels={"apportion.dev/managed": "true"})),
)
"""The policy of managed DeviceClasses that no AllocationPolicy covers."""
