"""One node: its devices, and what is left of them."""
