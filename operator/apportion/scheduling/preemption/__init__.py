"""Preemption: pods are evicted for claims that wait, and what they give back is kept for these claims."""
