"""The kinds of objects that apportion reads or writes, and their addresses in the API."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind: where its objects live."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    name: str
    """As in `kind:`."""
    namespaced: bool = False

    @property
    def api_version(self) -> str:
        """As in `apiVersion:`."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, name: str = "", *, namespace: str = "", sub: str = "") -> str:
        """Return the URL path of the collection, of one object, or of its subresource."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
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

PODS = Kind("", "v1", "pods", "Pod", namespaced=True)
NODES = Kind("", "v1", "nodes", "Node")
EVENTS = Kind("", "v1", "events", "Event", namespaced=True)
LEASES = Kind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CLAIMS = Kind(RESOURCE, "v1", "resourceclaims", "ResourceClaim", namespaced=True)
SLICES = Kind(RESOURCE, "v1", "resourceslices", "ResourceSlice")
CLASSES = Kind(RESOURCE, "v1", "deviceclasses", "DeviceClass")
TAINT_RULES = Kind(RESOURCE, "v1", "devicetaintrules", "DeviceTaintRule")
PARTITIONS = Kind(OWN, "v1alpha1", "partitions", "Partition")
LAYOUTS = Kind(OWN, "v1alpha1", "partitionlayouts", "PartitionLayout")
POLICIES = Kind(OWN, "v1alpha1", "allocationpolicies", "AllocationPolicy")
