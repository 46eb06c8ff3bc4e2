"""Defragmentation: who may move, plans of DefragPolicies, and carrying them out."""
