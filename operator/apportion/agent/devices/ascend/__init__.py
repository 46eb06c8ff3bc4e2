"""Huawei Ascend NPUs and their vNPUs, through DCMI."""
