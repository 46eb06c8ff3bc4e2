"""apportion's own API: Partition, PartitionLayout and AllocationPolicy, group apportion.dev, version v1alpha1.

In: decoded JSON of these objects. Out: frozen pydantic models, and the CRDs that are made from them.
"""

GROUP = "apportion.dev"
VERSION = "v1alpha1"
