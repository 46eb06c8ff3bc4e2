"""The kinds of objects that apportion reads or writes, and their addresses in the API."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ResourceKind:
    """One kind: where its objects live."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    name: str
    """As in `kind:`."""
    namespaced: bool = False
    older: str = ""
    """A version with the same fields that older servers serve instead of `version`; empty: there is none."""

    @property
    def api_version(self) -> str:
        """As in `apiVersion:`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", *, namespace: str = "", sub: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        return self._path(self.version, name, namespace, sub)

    def collections(self, namespace: str = "") -> list[str]:
        """Return the URL paths of the collection, by one of which a server has it: in `version`, then in an older one."""
        return [self._path(version, "", namespace, "") for version in (self.version, self.older) if version]

    def _path(self, version: str, name: str, namespace: str, sub: str) -> str:
        parts = ["/apis", self.group, version] if self.group else ["/api", version]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        if name:
            parts.append(name)
        if sub:
            parts.append(sub)
        return "/".join(parts)


RESOURCE = "resource.k8s.io"
OWN = "apportion.dev"

PODS = ResourceKind("", "v1", "pods", "Pod", namespaced=True)
NODES = ResourceKind("", "v1", "nodes", "Node")
NAMESPACES = ResourceKind("", "v1", "namespaces", "Namespace")
EVENTS = ResourceKind("", "v1", "events", "Event", namespaced=True)
VOLUME_CLAIMS = ResourceKind("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True)
VOLUMES = ResourceKind("", "v1", "persistentvolumes", "PersistentVolume")
STORAGE_CLASSES = ResourceKind("storage.k8s.io", "v1", "storageclasses", "StorageClass")
BUDGETS = ResourceKind("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", namespaced=True)
LEASES = ResourceKind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CLAIMS = ResourceKind(RESOURCE, "v1", "resourceclaims", "ResourceClaim", namespaced=True)
CLAIM_TEMPLATES = ResourceKind(
    RESOURCE, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True
)
SLICES = ResourceKind(RESOURCE, "v1", "resourceslices", "ResourceSlice")
CLASSES = ResourceKind(RESOURCE, "v1", "deviceclasses", "DeviceClass")
TAINT_RULES = ResourceKind(RESOURCE, "v1", "devicetaintrules", "DeviceTaintRule", older="v1beta2")
"""Served from Kubernetes 1.37 on; by 1.36 as v1beta2, where the feature gate DRADeviceTaintRules and that version are turned on."""
PARTITIONS = ResourceKind(OWN, "v1alpha1", "partitions", "Partition")
LAYOUTS = ResourceKind(OWN, "v1alpha1", "partitionlayouts", "PartitionLayout")
POD_GROUPS = ResourceKind("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", namespaced=True)
"""Served from Kubernetes 1.37 on, with the feature gate GenericWorkload."""
POLICIES = ResourceKind(OWN, "v1alpha1", "allocationpolicies", "AllocationPolicy")
QUOTAS = ResourceKind(OWN, "v1alpha1", "acceleratorquotas", "AcceleratorQuota")
DEFRAGS = ResourceKind(OWN, "v1alpha1", "defragpolicies", "DefragPolicy")
HOLDS = ResourceKind(OWN, "v1alpha1", "deviceholds", "DeviceHold")
"""Written by the operator for people; it reads none but its own, once."""
ADMISSION_BINDINGS = ResourceKind(
    "admissionregistration.k8s.io", "v1", "mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding"
)
OPTIONAL = frozenset((TAINT_RULES, POD_GROUPS))
"""Kinds that a server may not serve: they are done without until it does."""
OBSERVED = (
    CLASSES,
    NODES,
    SLICES,
    TAINT_RULES,
    PARTITIONS,
    LAYOUTS,
    POLICIES,
    NAMESPACES,
    QUOTAS,
    CLAIMS,
    PODS,
    POD_GROUPS,
)
"""Every kind that all decisions depend on; volumes are read, too, where that is allowed. Of DefragPolicies no decision depends."""
