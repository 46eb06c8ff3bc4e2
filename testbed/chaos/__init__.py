"""Chaos: the real agent killed a thousand times over, and a judge who shares no code with it."""
