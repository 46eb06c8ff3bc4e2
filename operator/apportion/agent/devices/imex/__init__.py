"""IMEX channels of NVIDIA's driver."""
