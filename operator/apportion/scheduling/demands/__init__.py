"""Demands: what waits for devices, alone or as a group, and what hangs together with it."""
