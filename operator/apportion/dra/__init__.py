"""What Kubernetes says, as frozen values: quantities, devices, slices, claims, allocations, nodes, pods."""
