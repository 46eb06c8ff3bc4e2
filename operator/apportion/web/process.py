"""PageProcess: the page runs beside the operator, in a process that the operator starts, ends, and starts anew when it fails.

In: a command line. Out: a log line when it ends. Whatever becomes of it, the operator goes on.
"""

import asyncio
import signal
import sys
from collections.abc import Sequence

import structlog

from apportion.settings import OperatorSettings
from apportion.web.memory import SHORT

_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
"""Seconds until a process that ended is started anew; doubled each time."""
_WELL = 60.0
"""Seconds after which a process counts as one that ran."""
_GRACE = 5.0
"""Seconds from SIGTERM to SIGKILL."""
_log = structlog.get_logger()


class PageProcess:
    """One process, started anew when it ends."""

    def __init__(self, command: Sequence[str]) -> None:
        """`command`: its standard input ends when the operator does."""
        self._command = command

    async def run(self) -> None:
        """Keep it running until cancelled."""
        loop, pause = asyncio.get_running_loop(), _FIRST_PAUSE
        while True:
            began = loop.time()
            try:
                status = await self._once()
                _log.warning("web.ended", status=status, reason=_reason(status), next_in=pause)
            except OSError as error:
                _log.warning("web.not_started", error=str(error), next_in=pause)
            if loop.time() - began > _WELL:
                pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _once(self) -> int:
        process = await asyncio.create_subprocess_exec(*self._command, stdin=asyncio.subprocess.PIPE)
        try:
            return await process.wait()
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    async with asyncio.timeout(_GRACE):
                        await process.wait()
                except TimeoutError:
                    process.kill()
                    await process.wait()


def _reason(status: int) -> str:
    """Say in words what an exit status means."""
    if status == SHORT:
        return "the cluster does not fit into the page's memory"
    if status < 0:
        return f"ended by {signal.Signals(-status).name}, as happens where memory is short"
    return "the lines before this one say why" if status else "it was stopped"


def command_of(settings: OperatorSettings) -> Sequence[str]:
    """Return the command line of the page beside an operator."""
    options = {
        "--web-port": str(settings.web.port),
        "--web-hosts": ",".join(sorted(settings.web.hosts)),
        "--namespace": settings.namespace,
        "--lease": settings.lease.name,
        "--replica": settings.identity,
        "--log-format": settings.web.log_format,
        **({"--kubeconfig": str(settings.kubeconfig)} if settings.kubeconfig is not None else {}),
        **({"--web-memory": str(settings.web.memory)} if settings.web.memory is not None else {}),
    }
    several = {"--schedulers": settings.schedulers, "--drivers": settings.drivers}
    return (
        sys.executable, "-m", "apportion", "web",
        *(word for option in options.items() for word in option),
        *(word for name, values in several.items() for value in sorted(values) for word in (name, value)),
    )  # fmt: skip
