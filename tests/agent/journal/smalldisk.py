"""A disk that fills up, for tests that are skipped where none can be mounted."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from testbed import smalldisk
from testbed.errors import Unavailable
from testbed.smalldisk import SmallDisk


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount one; skips the test where this process may not."""
    with ExitStack() as stack:
        try:
            disk = stack.enter_context(smalldisk.small_disk(folder))
        except Unavailable as error:
            pytest.skip(str(error))
        yield disk
