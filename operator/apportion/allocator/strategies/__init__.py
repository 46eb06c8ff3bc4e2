"""Which node, and which devices of it, when several would do."""
