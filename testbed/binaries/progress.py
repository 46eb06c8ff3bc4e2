"""Progress while binaries are being found: one line per binary, on a terminal or in a log."""

from types import TracebackType
from typing import Protocol, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

_STEP_WIDTH = 60


class Report(Protocol):
    """Receives the progress of a source."""

    def step(self, text: str, *, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done now; `done` of `total` bytes, where that is known."""


class Display:
    """One progress line per binary. Without a terminal, slow binaries get two plain lines instead."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            SpinnerColumn(finished_text="[green]✓"),
            TextColumn("{task.fields[title]:<24}"),
            BarColumn(bar_width=20),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.description}", markup=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        """Start to draw."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Wipe the lines; what matters is printed by the caller."""
        self._progress.stop()

    def line(self, title: str) -> "Line":
        """Add a line for one binary."""
        return Line(self._console, self._progress, title)


class Line:
    """The line of one binary."""

    def __init__(self, console: Console, progress: Progress, title: str) -> None:
        self._console = console
        self._progress = progress
        self._title = title
        self._said: str | None = None
        self._task: TaskID = progress.add_task("looking", title=title, total=None)

    def step(self, text: str, *, done: int | None = None, total: int | None = None) -> None:
        """Say what is being done now."""
        self._progress.update(self._task, description=text[:_STEP_WIDTH], completed=done, total=total)
        verb = text.partition(" ")[0]
        if not self._console.is_terminal and self._said is None and verb in {"building", "downloading"}:
            self._console.print(f"{self._title}: {verb} ...", highlight=False)
            self._said = verb

    def finish(self, text: str) -> None:
        """Say where the binary came from."""
        self._progress.update(self._task, description=text, completed=1, total=1)
        if self._said is not None:
            self._console.print(f"{self._title}: {text}", highlight=False)
