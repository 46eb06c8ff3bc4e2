"""Objects of Kubernetes as frozen values: quantities, devices, slices, claims, allocations, nodes, pods."""
