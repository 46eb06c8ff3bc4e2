"""ManagedClasses: which DeviceClasses we serve, and which AllocationPolicy each obeys.

In: classes and policies. Out: a frozen value. A class is managed when it carries the label
`apportion.dev/managed=true` or a policy covers it; where two policies cover one class, the older one counts and the
younger one gets a condition.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apportion.api.contract import MANAGED
from apportion.api.policy import DEFAULT_POLICY, AllocationPolicy, AllocationPolicySpec
from apportion.dra.claim import Claim
from apportion.dra.deviceclass import DeviceClass

_IMPLICIT = "deviceclass.resource.kubernetes.io/"
"""Before a class's name: the extended resource that each class has without saying so (API const `ResourceDeviceClassPrefix`)."""


@dataclass(frozen=True, slots=True)
class ManagedClasses:
    """The classes that we serve."""

    policies: Mapping[str, AllocationPolicySpec] = field(default_factory=dict)
    """By DeviceClass."""
    policy_names: Mapping[str, str] = field(default_factory=dict)
    """Name of the policy object that a class obeys; absent: the defaults."""
    known: frozenset[str] = frozenset()
    """DeviceClasses that exist."""
    conflicts: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    """By policy: the (class, older policy) pairs where the older policy counts."""
    extended_resources: Mapping[str, str] = field(default_factory=dict)
    """The DeviceClass that stands behind an extended resource (KEP-5004), by the resource's name; all classes count."""

    def owns(self, claim: Claim) -> bool:
        """Say whether every class that the claim names exists and is managed."""
        classes = claim.classes
        return bool(classes) and all(name in self.policies and name in self.known for name in classes)

    def unknown(self, claim: Claim) -> frozenset[str]:
        """Return the classes that the claim names and that do not exist."""
        return claim.classes - self.known

    def mixes(self, claim: Claim) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return (managed, other) classes when the claim names both, else None; classes that do not exist are neither."""
        ours = frozenset(name for name in claim.classes if name in self.policies)
        others = (claim.classes & self.known) - ours
        return (ours, others) if ours and others else None

    def policy(self, claim: Claim) -> AllocationPolicySpec:
        """Return the policy of the claim: that of its first request's first class."""
        for slot in claim.slots:
            for alternative in slot.alternatives:
                if alternative.device_class in self.policies:
                    return self.policies[alternative.device_class]
        return DEFAULT_POLICY


def managed_classes(classes: Iterable[DeviceClass], policies: Iterable[AllocationPolicy]) -> ManagedClasses:
    """Return the managed classes; older policies win."""
    by_age = sorted(
        policies,
        key=lambda p: (p.metadata.creation_timestamp is None, p.metadata.creation_timestamp, p.metadata.name),
    )
    classes = tuple(classes)
    labels = {known.name: known.labels for known in classes}
    specs: dict[str, AllocationPolicySpec] = {
        name: DEFAULT_POLICY for name, own in labels.items() if own.get(MANAGED) == "true"
    }
    names: dict[str, str] = {}
    conflicts: dict[str, list[tuple[str, str]]] = {}
    for policy in by_age:
        covered = set(policy.spec.device_classes.names)
        selector = policy.spec.device_classes.selector
        if selector is not None:
            covered |= {name for name, own in labels.items() if selector.matches(own)}
        for name in sorted(covered):
            if name in names:
                conflicts.setdefault(policy.metadata.name, []).append((name, names[name]))
            else:
                names[name], specs[name] = policy.metadata.name, policy.spec
    lost = {name: tuple(pairs) for name, pairs in conflicts.items()}
    return ManagedClasses(specs, names, frozenset(labels), lost, _extended_resources(classes))


def _extended_resources(classes: Iterable[DeviceClass]) -> dict[str, str]:
    """Return the class behind each extended resource: of several the newest, then the one with the lower name, as kube-scheduler has it."""
    found: dict[str, str] = {}
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    for known in sorted(by_name, key=lambda each: each.created):
        found[_IMPLICIT + known.name] = known.name
        if known.extended_resource:
            found[known.extended_resource] = known.name
    return found
