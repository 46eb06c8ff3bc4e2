"""Step 2: names, types and constants of a selector."""
