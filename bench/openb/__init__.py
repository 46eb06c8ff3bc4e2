"""Replay of the openb trace: a production cluster that fills up pod by pod, through the product or another policy.

`product` runs the product's allocator. The other policies do not: two published ones, and a bound.
"""
