"""Commands for people: read-only views of the cluster, and offline doors to the allocator."""
