"""The search on one node."""
