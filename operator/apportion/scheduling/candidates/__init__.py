"""Candidates: the nodes and devices that come into question for a demand, and what is left out for a while."""
