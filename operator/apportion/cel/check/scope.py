"""The state of a check: the names in scope, the types found so far, and the errors."""

from collections.abc import Iterator
from contextlib import contextmanager

from apportion.cel.check.checked import Checked
from apportion.cel.syntax.parse import error_at
from apportion.cel.syntax.tree import Node
from apportion.cel.types import BOOL, DEVICE, Type, Unifier
from apportion.errors import SelectorError


class Scope:
    """The state of one check. `scope` holds the types of the variables."""

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.unifier = Unifier()
        self.checked = Checked(root)
        self.scope: dict[str, Type] = {"device": DEVICE}

    @contextmanager
    def bind(self, bound: dict[str, Type]) -> Iterator[None]:
        """Bind variables while the context lasts."""
        outer = self.scope
        self.scope = {**outer, **bound}
        try:
            yield
        finally:
            self.scope = outer

    def new(self) -> Type:
        """Return a new type parameter."""
        return self.unifier.fresh((Type("T"),))[0]

    def shown(self, found: Type) -> str:
        """Return a type as in messages."""
        return str(self.unifier.resolve(found, final=True))

    def error(self, node: Node, reason: str) -> SelectorError:
        """Return an error with the line and column of the node."""
        return error_at(self.text, node.at, reason)

    def no_overload(
        self, node: Node, name: str, actual: tuple[Type, ...], *, method: bool = False
    ) -> SelectorError:
        """Return the error of a call without an overload for these argument types."""
        shown = [self.shown(found) for found in actual]
        applied = f"{shown[0]}.({', '.join(shown[1:])})" if method and shown else f"({', '.join(shown)})"
        return self.error(node, f"found no matching overload for '{name}' applied to '{applied}'")

    def must_be_bool(self, node: Node, found: Type, name: str, shown: tuple[Type, ...]) -> None:
        """Raise SelectorError unless the type is, or can be, bool; `name` and `shown` are for the message."""
        if not self.unifier.assignable((found,), (BOOL,)):
            raise self.no_overload(node, name, shown)


def unwrapped(found: Type) -> tuple[Type, bool]:
    """Return the type inside an optional and True; for any other type, the type and False."""
    return (found.params[0], True) if found.name == "optional_type" and found.params else (found, False)
