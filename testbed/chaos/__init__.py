"""Chaos: agents are killed at every step, and invariants are checked afterwards without the product's code."""
