"""Every Event of scheduling, one function each, with a fixed reason."""
