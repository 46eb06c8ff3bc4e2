"""Commands for users: the allocator and selectors without a cluster, CRDs, the node's hardware, uninstallation."""
