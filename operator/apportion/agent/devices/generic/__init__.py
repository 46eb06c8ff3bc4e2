"""Devices that a configuration describes, without a backend of their own."""
