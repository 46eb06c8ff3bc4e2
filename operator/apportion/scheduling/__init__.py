"""The cycle that turns waiting demands into written allocations."""
