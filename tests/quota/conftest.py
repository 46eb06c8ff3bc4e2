"""Clients of servers that never answer."""

from tests.clients import silent, unanswered

__all__ = ["silent", "unanswered"]
