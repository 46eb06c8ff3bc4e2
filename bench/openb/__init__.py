"""Replay of the openb trace: a production cluster that fills up pod by pod. Policies: two published ones and a bound.

The product is not replayed here: no policy in this package runs its allocator.
"""
