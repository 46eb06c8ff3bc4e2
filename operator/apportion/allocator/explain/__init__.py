"""Reasons why no node can serve a demand."""
