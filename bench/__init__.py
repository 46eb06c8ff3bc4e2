"""Benchmarks of the allocator, the operator's pass and the agent; no part of the product. README.md says what each figure leaves out."""
