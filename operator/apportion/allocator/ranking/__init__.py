"""Nodes ordered by their outcomes for a query, and what is kept per query."""
