"""RDMA devices, as the kernel shows them in /sys."""
