"""Gangs: several demands that are served together, on whatever nodes, or not at all."""
