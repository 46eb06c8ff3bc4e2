"""The facts: nodes, slices, taint rules, host resources, and the allocations that hold devices."""
