"""The base of the checker: names in scope, types found so far, errors; and the types of macros' variables and results."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

from apportion.cel.check.checked import Checked
from apportion.cel.syntax.parse import error_at
from apportion.cel.syntax.tree import Macro, Node
from apportion.cel.types import (
    BOOL,
    DEVICE,
    DYN,
    INT,
    Type,
    Unifier,
    list_of,
    map_of,
    optional_of,
    unwrapped,
)
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


class MacroCheck(Scope):
    """Checks macros; the checker extends it."""

    @abstractmethod
    def visit(self, node: Node) -> Type:
        """Return a node's type."""

    def macro(self, node: Macro) -> Type:
        """Return the type of a macro's result; raises SelectorError."""
        source = self.unifier.resolve(self.visit(node.source))
        if node.kind == "bind":
            with self.bind({node.names[0]: source}):
                return self.visit(node.bodies[0])
        if node.kind in ("opt_map", "opt_flat_map"):
            return self._optional_macro(node, source)
        variables = self._ranged(node, source)
        with self.bind(dict(zip(node.names, variables, strict=True))):
            bodies = [self.visit(body) for body in node.bodies]
        return self._macro_result(node, source, variables, bodies)

    def _macro_result(
        self, node: Macro, source: Type, variables: tuple[Type, ...], bodies: list[Type]
    ) -> Type:
        match node.kind:
            case "all" | "exists":
                name = "_&&_" if node.kind == "all" else "_||_"
                self.must_be_bool(node.bodies[0], bodies[0], name, (BOOL, bodies[0]))
                return BOOL
            case "exists_one":
                self.must_be_bool(node.bodies[0], bodies[0], "_?_:_", (bodies[0], INT, INT))
                return BOOL
            case "filter":
                kept = list_of(variables[0])
                self.must_be_bool(node.bodies[0], bodies[0], "_?_:_", (bodies[0], kept, kept))
                return kept
            case "sort_by":
                if source.name != "list" and source != DYN:
                    raise self.no_overload(node, "sortBy", (source, bodies[0]), method=True)
                return source
        result = bodies[-1]
        if len(bodies) == 2:
            self.must_be_bool(
                node.bodies[0], bodies[0], "_?_:_", (bodies[0], list_of(result), list_of(result))
            )
        match node.kind:
            case "transform_map" | "transform_map_if":
                return map_of(variables[0], result)
            case "transform_entry" | "transform_entry_if":
                entry = self.unifier.resolve(result)
                if entry.name not in ("map", "dyn"):
                    raise self.no_overload(node, "cel.@mapInsert", (map_of(DYN, DYN), entry))
                return entry
        return list_of(result)

    def _optional_macro(self, node: Macro, source: Type) -> Type:
        inner, wrapped = unwrapped(source)
        if not wrapped and inner != DYN:
            raise self.no_overload(node, "hasValue", (source,), method=True)
        with self.bind({node.names[0]: inner}):
            body = self.visit(node.bodies[0])
        if node.kind == "opt_map":
            return optional_of(body)
        if not self.unifier.assignable((body,), (optional_of(self.new()),)):
            raise self.no_overload(node, "_?_:_", (BOOL, body, optional_of(DYN)))
        return body

    def _ranged(self, node: Macro, source: Type) -> tuple[Type, ...]:
        """Return the types of the variables that iterate over `source`."""
        pair = len(node.names) == 2
        if source.name == "list":
            return (INT, source.params[0]) if pair else source.params
        if source.name == "map":
            return source.params if pair else source.params[:1]
        if source.is_param:
            self.unifier.assignable((DYN,), (source,))
        elif source != DYN:
            raise self.error(
                node.source,
                f"expression of type '{self.shown(source)}' cannot be range of a comprehension "
                "(must be list, map, or dynamic)",
            )
        return (DYN, DYN) if pair else (DYN,)
