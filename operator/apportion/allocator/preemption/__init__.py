"""Preemption: which pods would have to go so that a demand can be served. Pure; nothing is evicted here."""
