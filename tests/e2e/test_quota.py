"""Quotas on a live cluster of the default version."""

from tests.e2e.quotas import Quotas


class TestQuotas(Quotas):
    pass
