"""NICs in pods: network interfaces that are moved into a pod's network namespace, and taken back after it."""
