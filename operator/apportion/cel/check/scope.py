"""Scope: the names that a part of a selector sees, and the words for what does not fit."""

from collections.abc import Iterator
from contextlib import contextmanager

from apportion.cel.check.checked import Checked
from apportion.cel.syntax.parse import located
from apportion.cel.syntax.tree import Node
from apportion.cel.types import BOOL, DEVICE, Type, Unifier
from apportion.errors import SelectorError


class Scope:
    """The state of one check."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.unifier = Unifier()
        self.checked = Checked(root)
        self.scope: dict[str, Type] = {"device": DEVICE}

    @contextmanager
    def names(self, bound: dict[str, Type]) -> Iterator[None]:
        """Bind variables for a while."""
        outer = self.scope
        self.scope = {**outer, **bound}
        try:
            yield
        finally:
            self.scope = outer

    def new(self) -> Type:
        """Return a type that nothing is known of yet."""
        return self.unifier.fresh((Type("T"),))[0]

    def shown(self, found: Type) -> str:
        """Return a type as messages show it."""
        return str(self.unifier.resolve(found, final=True))

    def error(self, node: Node, reason: str) -> SelectorError:
        """Return an error that says where."""
        return located(self.text, node.at, reason)

    def no_overload(
        self, node: Node, name: str, actual: tuple[Type, ...], *, method: bool = False
    ) -> SelectorError:
        """Return the error of a call that takes no such arguments."""
        shown = [self.shown(found) for found in actual]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if method and shown else f"({', '.join(shown)})"
        return self.error(node, f"found no matching overload for '{name}' applied to '{applied}'")

    def must_be_bool(self, node: Node, found: Type, name: str, shown: tuple[Type, ...]) -> None:
        """Raise SelectorError unless the type is bool, or may be."""
        if not self.unifier.assignable((found,), (BOOL,)):
            raise self.no_overload(node, name, shown)


def unwrapped(found: Type) -> tuple[Type, bool]:
    """Return what an optional holds, and whether it is an optional."""
    return (found.params[0], True) if found.name == "optional_type" and found.params else (found, False)
