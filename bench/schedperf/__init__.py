"""Kubernetes' own scheduler_perf cases for DRA, without and with our operator."""
