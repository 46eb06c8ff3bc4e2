"""The program that answers as upstream does."""

import pytest

from tests.upstream.oracle import Oracle, build


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Give upstream's allocator, built from its Go module."""
    return build()
