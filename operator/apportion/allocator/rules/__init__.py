"""Upstream's semantics: what claims, classes, slices and selectors mean."""
