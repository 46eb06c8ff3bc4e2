"""The fixture with upstream's program."""

import pytest

from tests.upstream.oracle import Oracle, build


@pytest.fixture(scope="session")
def oracle() -> Oracle:
    """Return upstream's allocator, built from its Go module."""
    return build()
