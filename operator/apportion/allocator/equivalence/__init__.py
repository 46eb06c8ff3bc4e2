"""Which nodes a search cannot tell apart."""
