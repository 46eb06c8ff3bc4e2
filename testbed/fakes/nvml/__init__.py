"""The fake NVML: libnvidia-ml.so.1 with MIG, from the C files of this folder."""
