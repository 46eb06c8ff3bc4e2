"""A client of a server that does not answer."""

from tests.clients import unanswered

__all__ = ["unanswered"]
