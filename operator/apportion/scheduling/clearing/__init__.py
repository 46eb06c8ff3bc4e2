"""Clearing: allocations and reservations that are taken back, and what becomes of those that others ended."""
