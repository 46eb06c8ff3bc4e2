"""What there is, and which allocations hold it."""
