"""The function libraries of the DRA environment, one module each: a tuple `OVERLOADS` of what it declares."""
