"""Pods from creation to binding on a real control plane: our operator, and kube-scheduler's own allocator."""
