"""NVIDIA GPUs and their MIG partitions, through NVML."""
