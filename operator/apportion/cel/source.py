"""Writes CEL as Python: every piece of source either gives CEL's value or raises.

A piece knows the class of its value when that is certain; where it is not, the piece tests the class first and
leaves anything unexpected to the exact functions, which the precise evaluator uses too.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from apportion.cel.checked import Checked, Resolved
from apportion.cel.closures import field_of
from apportion.cel.equality import equal, unequal
from apportion.cel.facts import facts
from apportion.cel.folds import items_of, pairs_of
from apportion.cel.functions import CLASSES
from apportion.cel.library.standard import find, find_optional, has
from apportion.cel.paths import Path, entry_of, path_of
from apportion.cel.piece import Piece, Unsupported
from apportion.cel.syntax import (
    Call,
    Conditional,
    Const,
    Ident,
    ListLiteral,
    Logic,
    Macro,
    MapLiteral,
    Node,
    Repeated,
    Select,
)
from apportion.cel.values import Optional, Value, no_overload
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_KINDS: Final[dict[str, type]] = {
    "bool": bool,
    "int": int,
    "double": float,
    "string": str,
    "bytes": bytes,
    "list": tuple,
    "kubernetes.Semver": Semver,
}
"""Classes that a function's declared result makes certain."""
_MISSING: Final = object()


def _refuse() -> Value:
    raise no_overload()


class Writer:
    """Writes one selector. `names` is what the source may refer to."""

    def __init__(
        self, checked: Checked, writers: Mapping[str, "WriteCall"], apart: frozenset[Const] = frozenset()
    ) -> None:
        """`writers`: functions that have a fast form of their own, by name. `apart`: constants that get a name each."""
        self._writers = writers
        self._apart = apart
        self.kept: dict[Const, str] = {}
        """The names that these got."""
        self.checked = checked
        self.bound: dict[str, Path | None] = {}
        self._variables: dict[str, str] = {}
        self._pieces: dict[Node, Piece] = {}
        self._count = 0
        self._uses: set[str] = set()
        self.names: dict[str, Any] = {
            "__builtins__": {"type": type, "len": len, "any": any, "all": all, "sum": sum, "tuple": tuple},
            "bool": bool,
            "FACTS": facts,
            "MISSING": _MISSING,
            "NSO": _refuse,
            "EQ": equal,
            "NE": unequal,
            "FIND": find,
            "FIELD": field_of,
            "HAS": has,
            "OPT": find_optional,
            "ITEMS": items_of,
            "PAIRS": pairs_of,
        }

    def prologue(self) -> str:
        """Return the statements that the expression relies on."""
        lines = {
            "FA": "    FA = d.attributes\n",
            "FC": "    FC = (d.facts or FACTS(d)).capacity\n",
            "V": "    V = (d.facts or FACTS(d)).value\n",
            # Loops multiply what a device holds, so the bound on the cost must hold for this very device.
            "LOOP": "    if not (d.facts or FACTS(d)).usual: NSO()\n",
        }
        return "".join(line for name, line in lines.items() if name in self._uses)

    def boolean(self, node: Node) -> str:
        """Write a node whose value must be a bool."""
        text, kind = self.piece(node)
        if kind is bool:
            return text
        name = self.name("t")
        return f"({name} if type({name} := {text}) is bool else NSO())"

    def piece(self, node: Node) -> Piece:
        """Write a node; raises Unsupported."""
        # A writer may look at a part and then leave the node to the general one: write every part once only.
        found = self._pieces.get(node)
        if found is None:
            found = (
                self._named(node) if isinstance(node, Const) and node in self._apart else self._piece(node)
            )
            self._pieces[node] = found
        return found

    def _named(self, node: Const) -> Piece:
        name = self.kept[node] = self.keep("L", node.value)
        return Piece(name, type(node.value))

    def _piece(self, node: Node) -> Piece:
        if node in self.checked.constants:
            return self.constant(self.checked.constants[node])
        match node:
            case Const():
                return self.constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Logic():
                word = " and " if node.conjunction else " or "
                return Piece(f"({word.join(map(self.boolean, node.args))})", bool)
            case Repeated() if node.times % 2 == 0:
                return self.piece(node.operand)
            case Repeated() if node.operator == "!":
                inner = self.boolean(node.operand)
                return Piece(f"(not {inner})", bool)
            case Conditional():
                yes, no = self.piece(node.yes), self.piece(node.no)
                text = f"({yes.text} if {self.boolean(node.condition)} else {no.text})"
                return Piece(text, yes.kind if yes.kind is no.kind else None)
            case ListLiteral() if not node.optional:
                return Piece(f"({''.join(f'{self.piece(item).text}, ' for item in node.items)})", tuple)
            case Macro():
                return self._macro(node)
            case Repeated():
                return self._strict(self.checked.calls[node])
            case ListLiteral() | MapLiteral():
                raise Unsupported

    def constant(self, value: Value) -> Piece:
        """Write a constant."""
        if type(value) in (bool, int, str, bytes) or value is None:
            return Piece(ascii(value), type(value))
        return Piece(self.keep("K", value), type(value))

    def keep(self, prefix: str, value: Any) -> str:
        """Give a value a name that the source may refer to."""
        name = self.name(prefix)
        self.names[name] = value
        return name

    def name(self, prefix: str) -> str:
        """Return a name that is not in use."""
        self._count += 1
        return f"{prefix}{self._count}"

    def _use(self, name: str) -> str:
        self._uses.add(name)
        return name

    def flat(self, kind: str) -> str:
        """Return the dict of all attributes or all capacities by qualified name."""
        return self._use("FA" if kind == "attribute" else "FC")

    def _ident(self, node: Ident) -> Piece:
        if node.name in self._variables:
            return Piece(self._variables[node.name])
        path = path_of(node, self.bound)
        if path is None:
            raise Unsupported
        return self._walk(path)

    def _walk(self, path: Path) -> Piece:
        """Write a path by the nested dicts."""
        if path == ("driver",):
            return Piece("d.driver", str)
        if path == ("allowMultipleAllocations",):
            return Piece("d.shareable", bool)
        text = self._use("V")
        for step, key in enumerate(path):
            text = f"FIELD({text}, {key!a})" if step else f"{text}[{key!a}]"
        return Piece(text)

    def _select(self, node: Select) -> Piece:
        entry = entry_of(node, self.bound)
        if node.test:
            if entry is not None:
                return Piece(f"({entry[1]!a} in {self.flat(entry[0])})", bool)
            return Piece(f"HAS({self.piece(node.operand).text}, {node.field!a})", bool)
        if node.optional:
            return Piece(f"OPT({self.piece(node.operand).text}, {node.field!a})", Optional)
        return (
            self.entry(entry)
            or self.path(node)
            or Piece(f"FIELD({self.piece(node.operand).text}, {node.field!a})")
        )

    def entry(self, entry: tuple[str, str] | None) -> Piece | None:
        """Write the look-up of one attribute or capacity."""
        if entry is None:
            return None
        kind, name = entry
        return Piece(f"{self.flat(kind)}[{name!a}]", Quantity if kind == "capacity" else None)

    def path(self, node: Node) -> Piece | None:
        """Write a look-up along constant names, None when the node is none."""
        path = path_of(node, self.bound)
        return None if path is None else self._walk(path)

    def _call(self, node: Call) -> Piece:
        write = self._writers.get(node.function)
        if write is not None:
            found = write(self, node)
            if found is not None:
                return found
        return self._strict(self.checked.calls[node])

    def _strict(self, resolved: Resolved) -> Piece:
        """Write a call of a function through its dispatch."""
        forms = resolved.dispatch.overloads
        if any(form.grows for form in forms):
            raise Unsupported
        pieces = [self.piece(arg) for arg in resolved.args]
        names = {form.result.name for form in forms}
        kind = _KINDS.get(names.pop()) if len(names) == 1 else None
        call = self.keep("D", resolved.dispatch)
        taken = [CLASSES.get(param.name, ()) for param in forms[0].params]
        rest = [arg.text for arg in pieces[1:]]
        certain = all(
            len(kinds) == 1 and arg.kind is kinds[0] for arg, kinds in zip(pieces[1:], taken[1:], strict=True)
        )
        if len(forms) != 1 or not pieces or not certain or len(taken[0]) != 1:
            return Piece(f"{call}({', '.join(arg.text for arg in pieces)})", kind)
        run = self.keep("R", forms[0].run)
        text = self.guarded(
            pieces[0],
            taken[0][0],
            lambda t: f"{run}({', '.join([t, *rest])})",
            lambda t: f"{call}({', '.join([t, *rest])})",
        )
        return Piece(text, kind)

    def guarded(
        self, piece: Piece, kind: type, test: Callable[[str], str], otherwise: Callable[[str], str]
    ) -> str:
        """Write `test` of a piece if its value is of the class, `otherwise` of it if not."""
        if piece.kind is kind:
            return test(piece.text)
        name = self.name("t")
        return f"({test(name)} if type({name} := {piece.text}) is {self._class(kind)} else {otherwise(name)})"

    def _class(self, kind: type) -> str:
        name = f"C{kind.__name__}"
        self.names[name] = kind
        return name

    def _macro(self, node: Macro) -> Piece:
        if node.kind == "bind":
            return self._bind(node)
        pair = len(node.names) == 2
        source = f"{'PAIRS' if pair else 'ITEMS'}({self.piece(node.source).text})"
        over, names = self.name("t"), [self.name("c") for _ in node.names]
        self._use("LOOP")
        kept = self.bound, self._variables
        self.bound = {**self.bound, **dict.fromkeys(node.names)}
        self._variables = {**self._variables, **dict(zip(node.names, names, strict=True))}
        loop = f"for {', '.join(names)} in {over}"
        match node.kind:
            case "exists" | "all":
                text = f"{'any' if node.kind == 'exists' else 'all'}({self.boolean(node.bodies[0])} {loop})"
                kind: type | None = bool
            case "exists_one":
                text, kind = f"(sum([{self.boolean(node.bodies[0])} {loop}]) == 1)", bool
            case "filter":
                text, kind = f"tuple([{names[0]} {loop} if {self.boolean(node.bodies[0])}])", tuple
            case "map" | "transform_list":
                text, kind = f"tuple([{self.piece(node.bodies[0]).text} {loop}])", tuple
            case _:
                raise Unsupported
        self.bound, self._variables = kept
        # What is ranged over gets a name first: Python allows no assignment inside the iterable.
        return Piece(f"({text} if ({over} := {source}) is not None else NSO())", kind)

    def _bind(self, node: Macro) -> Piece:
        (variable,) = node.names
        path = path_of(node.source, self.bound)
        kept = self.bound, self._variables
        self._variables = {name: text for name, text in self._variables.items() if name != variable}
        if path is not None:
            # The path is looked up where it is used, which is just as lazy.
            self.bound = {**self.bound, variable: path}
            body = self.piece(node.bodies[0])
        else:
            init, name = self.piece(node.source).text, self.name("b")
            self.bound = {**self.bound, variable: None}
            self._variables[variable] = name
            inner = self.piece(node.bodies[0])
            body = Piece(f"({name} := {init}, {inner.text})[1]", inner.kind)
        self.bound, self._variables = kept
        return body


WriteCall: TypeAlias = Callable[[Writer, Call], Piece | None]
"""Writes a call; None leaves it to the general form. Raises Unsupported."""
