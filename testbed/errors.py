"""Errors of a testbed. Every text is written for a person."""

from pathlib import Path


class TestbedError(Exception):
    """Base class of the testbed's errors."""

    __test__ = False  # pytest would take the name for a group of tests


class Unavailable(TestbedError):  # noqa: N818 - named after the state of the source, as it reads in the report
    """One source cannot provide one binary; the next source may."""


class MissingBinariesError(TestbedError):
    """No source could provide at least one binary; the text lists what was tried for each and why it failed."""


class ComponentDiedError(TestbedError):
    """A component ended by itself; the text ends with the last lines of its log."""

    def __init__(self, component: str, code: int | None, log: Path) -> None:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "(no log)"
        super().__init__(f"{component} ended by itself (exit code {code}); the end of {log}:\n{tail}")
        self.component = component


class NotReadyInTimeError(TestbedError):
    """A component runs, but does not answer as it should within its time."""


class ApiError(TestbedError):
    """The API server refused; `status` is the HTTP code, `reason` the machine's word (`Conflict`, `NotFound`)."""

    def __init__(self, status: int, reason: str, message: str, *, request: str) -> None:
        super().__init__(f"{request}: {status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
