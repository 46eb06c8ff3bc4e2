"""What commands change of the process in which the tests of others run, too."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """Restore how logs are written: a command writes errors only."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)
