"""Functions that selectors may call: one module a library, with a tuple `OVERLOADS` of what it declares."""
