"""The operator on a large cluster behind a real API server."""
