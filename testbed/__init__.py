"""A real control plane, and simulated nodes, on one machine."""
