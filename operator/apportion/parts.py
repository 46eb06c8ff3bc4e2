"""Parts: the tasks that the operator consists of; none of them may end alone.

In: a name and the work of each. Out: the first failure, for the log, for the error that ends the process, and for the liveness probe.
"""

from collections.abc import Awaitable

import structlog

from apportion.errors import ApportionError

_log = structlog.get_logger()


class Parts:
    """Runs the parts and remembers the first that failed."""

    def __init__(self) -> None:
        """None has failed."""
        self.failure: str | None = None
        """Name and error of the first part that failed; the process is ending since then."""

    async def run(self, name: str, work: Awaitable[None]) -> None:
        """Do one part. Raises ApportionError, with the part's name, when it fails; that ends the process."""
        try:
            await work
        except Exception as error:
            _log.exception("operator.part_failed", part=name)
            failure = f"{name} failed: {type(error).__name__} {error}"
            self.failure = self.failure or failure
            raise ApportionError(failure) from error
