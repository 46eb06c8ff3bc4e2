"""Step 1: a selector's text to a syntax tree."""
