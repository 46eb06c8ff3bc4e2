"""Quotas: what allocations are charged, what namespaces may still have, and whose turn it is. Pure: no clock, no I/O."""
