"""One node: its devices, their layout, and what is free."""
