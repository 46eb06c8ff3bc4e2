"""Deferred: commands that are imported when somebody asks for them, since all of them together take longer to import than most take to run.

In: the name of each, what it does, and where it is. Out: a group of commands that typer runs; it lists them by what is known of them.
"""

from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup


class Deferred(TyperCommand):
    """A command that is not imported yet."""

    def __init__(self, name: str, does: str, place: str) -> None:
        """`does`: the first line of what it says of itself; `place`: `module:name` of its function, or of its group."""
        super().__init__(name, help=does)
        self._place = place

    def load(self) -> Any:
        """Import it, and return it as typer runs it."""
        module, _, name = self._place.partition(":")
        found = getattr(import_module(module), name)
        if isinstance(found, typer.Typer):
            return typer.main.get_group(found)
        alone = typer.Typer(add_completion=False)
        alone.command(self.name)(found)
        return typer.main.get_command(alone)


class DeferringGroup(TyperGroup):
    """A group with deferred commands behind its own."""

    deferred: ClassVar[tuple[Deferred, ...]] = ()

    def __init__(self, **settings: Any) -> None:
        """Take typer's settings of a group."""
        super().__init__(**settings)
        for each in self.deferred:
            self.add_command(each)

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Return the command that the arguments name, imported, and what is left of them."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
