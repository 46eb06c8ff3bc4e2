"""A look at the real cards of this machine, whose report users can send."""
