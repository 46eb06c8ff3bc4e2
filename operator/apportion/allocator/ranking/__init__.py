"""The nodes in order, and what is remembered of queries."""
