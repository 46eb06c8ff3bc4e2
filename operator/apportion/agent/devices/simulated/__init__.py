"""Simulated cards: a description file, a state file, and the placement rules of the vendors."""
