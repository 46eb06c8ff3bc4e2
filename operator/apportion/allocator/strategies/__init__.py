"""Choosing among nodes and devices that can all serve."""
