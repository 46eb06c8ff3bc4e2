"""How fast what is guaranteed to many teams comes back from those that have borrowed it, and how many pods go for it."""
