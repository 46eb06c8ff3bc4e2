"""The live state of the cluster: client, reflectors, snapshot and its indexes, assumed allocations, lease, Events."""
