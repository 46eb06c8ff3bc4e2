"""A selector's text becomes a tree."""
