"""How fast and how well the allocator works, measured against others."""
