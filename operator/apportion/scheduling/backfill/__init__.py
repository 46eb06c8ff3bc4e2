"""Devices that are reserved for the first of the queue, and who may use them until then (ADR 0027)."""
