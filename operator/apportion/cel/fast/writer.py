"""Writes CEL as Python: the source of every node either gives CEL's value or raises.

A fragment knows the class of its value where that is certain. Where it is not, the source tests the class first and leaves
every other value to the exact functions, which the precise evaluator uses too.
"""

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from apportion.cel.check.checked import Checked, Resolved
from apportion.cel.check.reads import Path, entry_of, path_of
from apportion.cel.fast.fragments import Fragment, Namespace, Unsupported
from apportion.cel.library.functions import CLASSES
from apportion.cel.syntax import tree
from apportion.cel.syntax.tree import Node
from apportion.cel.values import Optional
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_CERTAIN: Final[dict[str, type]] = {
    "bool": bool,
    "int": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "list": tuple,
    "kubernetes.Semver": Semver,
}
"""Classes that a function's declared result makes certain."""


class Writer(Namespace):
    """Writes the source of one selector."""

    def __init__(
        self, checked: Checked, writers: Mapping[str, "WriteCall"], named: frozenset[tree.Const]
    ) -> None:
        """`writers`: how calls of some functions are written, by function. `named`: constants that get a name each."""
        super().__init__()
        self._writers = writers
        self._named = named
        self.literals: dict[tree.Const, str] = {}
        """The names of the named constants."""
        self.checked = checked
        self.bound: dict[str, Path | None] = {}
        self._variables: dict[str, str] = {}
        self._fragments: dict[Node, Fragment] = {}

    def boolean(self, node: Node) -> str:
        """Write a node whose value must be a bool."""
        text, cls = self.fragment(node)
        if cls is bool:
            return text
        name = self.name("t")
        return f"({name} if type({name} := {text}) is bool else NSO())"

    def fragment(self, node: Node) -> Fragment:
        """Write a node; raises Unsupported."""
        # A function's own writer may write a part and then leave the call to the general form: no part is written twice.
        found = self._fragments.get(node)
        if found is None:
            if isinstance(node, tree.Const) and node in self._named:
                name = self.literals[node] = self.keep("L", node.value)
                found = Fragment(name, type(node.value))
            else:
                found = self._fragment(node)
            self._fragments[node] = found
        return found

    def _fragment(self, node: Node) -> Fragment:
        if node in self.checked.constants:
            return self.constant(self.checked.constants[node])
        match node:
            case tree.Const():
                return self.constant(node.value)
            case tree.Ident():
                return self._ident(node)
            case tree.Select():
                return self._select(node)
            case tree.Call():
                return self._call(node)
            case tree.Logic():
                word = " and " if node.conjunction else " or "
                return Fragment(f"({word.join(map(self.boolean, node.args))})", bool)
            case tree.Repeated() if node.times % 2 == 0:
                return self.fragment(node.operand)
            case tree.Repeated() if node.operator == "!":
                inner = self.boolean(node.operand)
                return Fragment(f"(not {inner})", bool)
            case tree.Conditional():
                yes, no = self.fragment(node.yes), self.fragment(node.no)
                text = f"({yes.text} if {self.boolean(node.condition)} else {no.text})"
                return Fragment(text, yes.cls if yes.cls is no.cls else None)
            case tree.ListLiteral() if not node.optional:
                return Fragment(f"({''.join(f'{self.fragment(item).text}, ' for item in node.items)})", tuple)
            case tree.Macro():
                return self._macro(node)
            case tree.Repeated():
                return self._strict(self.checked.calls[node])
            case tree.ListLiteral() | tree.MapLiteral():
                raise Unsupported

    def _ident(self, node: tree.Ident) -> Fragment:
        if node.name in self._variables:
            return Fragment(self._variables[node.name])
        path = path_of(node, self.bound)
        if path is None:
            raise Unsupported
        return self._walk(path)

    def _walk(self, path: Path) -> Fragment:
        """Write a path by the nested dicts."""
        if path == ("driver",):
            return Fragment("d.driver", str)
        if path == ("allowMultipleAllocations",):
            return Fragment("d.shareable", bool)
        text = self.use("V")
        for step, key in enumerate(path):
            text = f"FIELD({text}, {key!a})" if step else f"{text}[{key!a}]"
        return Fragment(text)

    def _select(self, node: tree.Select) -> Fragment:
        entry = entry_of(node, self.bound)
        if node.test:
            if entry is not None:
                return Fragment(f"({entry[1]!a} in {self.flat(entry[0])})", bool)
            return Fragment(f"HAS({self.fragment(node.operand).text}, {node.field!a})", bool)
        if node.optional:
            return Fragment(f"OPT({self.fragment(node.operand).text}, {node.field!a})", Optional)
        return (
            self.entry(entry)
            or self.path(node)
            or Fragment(f"FIELD({self.fragment(node.operand).text}, {node.field!a})")
        )

    def entry(self, entry: tuple[str, str] | None) -> Fragment | None:
        """Write the look-up of one attribute or capacity."""
        if entry is None:
            return None
        kind, name = entry
        return Fragment(f"{self.flat(kind)}[{name!a}]", Quantity if kind == "capacity" else None)

    def path(self, node: Node) -> Fragment | None:
        """Write a look-up along constant names; None for other nodes."""
        path = path_of(node, self.bound)
        return None if path is None else self._walk(path)

    def _call(self, node: tree.Call) -> Fragment:
        write = self._writers.get(node.function)
        if write is not None:
            found = write(self, node)
            if found is not None:
                return found
        return self._strict(self.checked.calls[node])

    def _strict(self, resolved: Resolved) -> Fragment:
        """Write a call of a function through its dispatch."""
        forms = resolved.dispatch.overloads
        if any(form.grows for form in forms):
            raise Unsupported
        args = [self.fragment(arg) for arg in resolved.args]
        names = {form.result.name for form in forms}
        cls = _CERTAIN.get(names.pop()) if len(names) == 1 else None
        call = self.keep("D", resolved.dispatch)
        taken = [CLASSES.get(param.name, ()) for param in forms[0].params]
        rest = [arg.text for arg in args[1:]]
        certain = all(
            len(classes) == 1 and arg.cls is classes[0]
            for arg, classes in zip(args[1:], taken[1:], strict=True)
        )
        if len(forms) != 1 or not args or not certain or len(taken[0]) != 1:
            return Fragment(f"{call}({', '.join(arg.text for arg in args)})", cls)
        run = self.keep("R", forms[0].run)
        text = self.guarded(
            args[0],
            taken[0][0],
            lambda t: f"{run}({', '.join([t, *rest])})",
            lambda t: f"{call}({', '.join([t, *rest])})",
        )
        return Fragment(text, cls)

    def _macro(self, node: tree.Macro) -> Fragment:
        if node.kind == "bind":
            return self._bind(node)
        pair = len(node.names) == 2
        source = f"{'PAIRS' if pair else 'ITEMS'}({self.fragment(node.source).text})"
        over, names = self.name("t"), [self.name("c") for _ in node.names]
        self.use("LOOP")
        kept = self.bound, self._variables
        self.bound = {**self.bound, **dict.fromkeys(node.names)}
        self._variables = {**self._variables, **dict(zip(node.names, names, strict=True))}
        loop = f"for {', '.join(names)} in {over}"
        match node.kind:
            case "exists" | "all":
                text = f"{'any' if node.kind == 'exists' else 'all'}({self.boolean(node.bodies[0])} {loop})"
                cls: type | None = bool
            case "exists_one":
                text, cls = f"(sum([{self.boolean(node.bodies[0])} {loop}]) == 1)", bool
            case "filter":
                text, cls = f"tuple([{names[0]} {loop} if {self.boolean(node.bodies[0])}])", tuple
            case "map" | "transform_list":
                text, cls = f"tuple([{self.fragment(node.bodies[0]).text} {loop}])", tuple
            case _:
                raise Unsupported
        self.bound, self._variables = kept
        # The source gets a name first: Python allows no assignment inside the iterable.
        return Fragment(f"({text} if ({over} := {source}) is not None else NSO())", cls)

    def _bind(self, node: tree.Macro) -> Fragment:
        (variable,) = node.names
        path = path_of(node.source, self.bound)
        kept = self.bound, self._variables
        self._variables = {name: text for name, text in self._variables.items() if name != variable}
        if path is not None:
            # The path is looked up where the variable is used, which is lazy too.
            self.bound = {**self.bound, variable: path}
            body = self.fragment(node.bodies[0])
        else:
            init, name = self.fragment(node.source).text, self.name("b")
            self.bound = {**self.bound, variable: None}
            self._variables[variable] = name
            inner = self.fragment(node.bodies[0])
            body = Fragment(f"({name} := {init}, {inner.text})[1]", inner.cls)
        self.bound, self._variables = kept
        return body


WriteCall: TypeAlias = Callable[[Writer, tree.Call], Fragment | None]
"""Writes a call; returns None where the general form must do, raises Unsupported where there is no fast form."""
