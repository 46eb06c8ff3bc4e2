"""Writes CEL as Python: every piece of source either gives CEL's value or raises.

A piece knows the class of its value when that is certain; where it is not, the piece tests the class first and
leaves anything unexpected to the exact functions, which the precise evaluator uses too.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from apportion.cel.check import Checked, Resolved
from apportion.cel.closures import field_of, member_of
from apportion.cel.equality import equal, unequal
from apportion.cel.facts import facts
from apportion.cel.folds import items_of, pairs_of
from apportion.cel.functions import CLASSES
from apportion.cel.library.quantities import quantity
from apportion.cel.library.regexes import results
from apportion.cel.library.semvers import semver
from apportion.cel.library.standard import find, find_optional, has
from apportion.cel.paths import Path, entry_of, path_of
from apportion.cel.patterns import plain_test
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
from apportion.cel.values import CelFailure, Optional, Value, no_overload
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_ORDER: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}
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
_COMPARE: Final = {"isGreaterThan": ">", "isLessThan": "<"}


class Unsupported(Exception):  # noqa: N818 - private to the fast path
    """This part of CEL has no fast form."""


class Piece(NamedTuple):
    """Source of an expression, and the class of its value if certain."""

    text: str
    kind: type | None = None


def _refuse() -> Value:
    raise no_overload()


class Writer:
    """Writes one selector. `names` is what the source may refer to."""

    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._bound: dict[str, Path | None] = {}
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
        name = self._name("t")
        return f"({name} if type({name} := {text}) is bool else NSO())"

    def piece(self, node: Node) -> Piece:
        """Write a node; raises Unsupported."""
        # A writer may look at a part and then leave the node to the general one: write every part once only.
        found = self._pieces.get(node)
        if found is None:
            found = self._pieces[node] = self._piece(node)
        return found

    def _piece(self, node: Node) -> Piece:
        match node:
            case Const():
                return self._constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Logic():
                word = " and " if node.conjunction else " or "
                return Piece(f"({word.join(map(self.boolean, node.args))})", bool)
            case Repeated() if node.operator == "!":
                inner = self.boolean(node.operand)
                return Piece(f"(not {inner})" if node.times % 2 else inner, bool)
            case Conditional():
                yes, no = self.piece(node.yes), self.piece(node.no)
                text = f"({yes.text} if {self.boolean(node.condition)} else {no.text})"
                return Piece(text, yes.kind if yes.kind is no.kind else None)
            case ListLiteral() if not node.optional:
                return Piece(f"({''.join(f'{self.piece(item).text}, ' for item in node.items)})", tuple)
            case Macro():
                return self._macro(node)
            case Repeated():
                if node.times != 1:
                    raise Unsupported
                return self._strict(self._checked.calls[node])
            case ListLiteral() | MapLiteral():
                raise Unsupported

    def _constant(self, value: Value) -> Piece:
        if type(value) in (bool, int, str, bytes) or value is None:
            return Piece(ascii(value), type(value))
        return Piece(self._keep("K", value), type(value))

    def _keep(self, prefix: str, value: Any) -> str:
        name = self._name(prefix)
        self.names[name] = value
        return name

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def _use(self, name: str) -> str:
        self._uses.add(name)
        return name

    def _flat(self, kind: str) -> str:
        return self._use("FA" if kind == "attribute" else "FC")

    def _ident(self, node: Ident) -> Piece:
        constant = self._checked.constants.get(node)
        if constant is not None:
            return self._constant(constant)
        if node.name in self._variables:
            return Piece(self._variables[node.name])
        path = path_of(node, self._bound)
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
        constant = self._checked.constants.get(node)
        if constant is not None:
            return self._constant(constant)
        entry = entry_of(node, self._bound)
        if node.test:
            if entry is not None:
                return Piece(f"({entry[1]!a} in {self._flat(entry[0])})", bool)
            return Piece(f"HAS({self.piece(node.operand).text}, {node.field!a})", bool)
        if node.optional:
            return Piece(f"OPT({self.piece(node.operand).text}, {node.field!a})", Optional)
        return (
            self._entry(entry)
            or self._path(node)
            or Piece(f"FIELD({self.piece(node.operand).text}, {node.field!a})")
        )

    def _entry(self, entry: tuple[str, str] | None) -> Piece | None:
        if entry is None:
            return None
        kind, name = entry
        return Piece(f"{self._flat(kind)}[{name!a}]", Quantity if kind == "capacity" else None)

    def _path(self, node: Node) -> Piece | None:
        path = path_of(node, self._bound)
        return None if path is None else self._walk(path)

    def _call(self, node: Call) -> Piece:
        write = _WRITERS.get(node.function)
        if write is not None:
            found = write(self, node)
            if found is not None:
                return found
        return self._strict(self._checked.calls[node])

    def _strict(self, resolved: Resolved) -> Piece:
        """Write a call of a function through its dispatch."""
        forms = resolved.dispatch.overloads
        if any(form.grows for form in forms):
            raise Unsupported
        pieces = [self.piece(arg) for arg in resolved.args]
        names = {form.result.name for form in forms}
        kind = _KINDS.get(names.pop()) if len(names) == 1 else None
        call = self._keep("D", resolved.dispatch)
        taken = [CLASSES.get(param.name, ()) for param in forms[0].params]
        rest = [arg.text for arg in pieces[1:]]
        certain = all(
            len(kinds) == 1 and arg.kind is kinds[0] for arg, kinds in zip(pieces[1:], taken[1:], strict=True)
        )
        if len(forms) != 1 or not pieces or not certain or len(taken[0]) != 1:
            return Piece(f"{call}({', '.join(arg.text for arg in pieces)})", kind)
        run = self._keep("R", forms[0].run)
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
        name = self._name("t")
        return f"({test(name)} if type({name} := {piece.text}) is {self._class(kind)} else {otherwise(name)})"

    def _class(self, kind: type) -> str:
        name = f"C{kind.__name__}"
        self.names[name] = kind
        return name

    def index(self, node: Call) -> Piece | None:
        """Write `a[b]` and `a[?b]`."""
        if node.function == "_[?_]":
            args = ", ".join(self.piece(arg).text for arg in node.args)
            return Piece(f"OPT({args})", Optional)
        entry = self._entry(entry_of(node, self._bound)) or self._path(node)
        return entry or Piece(f"FIND({', '.join(self.piece(arg).text for arg in node.args)})")

    def equality(self, node: Call) -> Piece | None:
        """Write `==` and `!=`; constants on one side leave one test of a class."""
        sign, exact = _ORDER[node.function], "EQ" if node.function == "_==_" else "NE"
        compared = self.compared(node)
        if compared is not None:
            return compared
        left, right = map(self.piece, node.args)
        if left.kind is right.kind and left.kind in (str, int, bool, bytes):
            return Piece(f"({left.text} {sign} {right.text})", bool)
        if right.kind in (str, int) and isinstance(node.args[1], Const):
            text = self.guarded(
                left,
                right.kind,
                lambda t: f"({t} {sign} {right.text})",
                lambda t: f"{exact}({t}, {right.text})",
            )
            return Piece(text, bool)
        if left.kind in (str, int) and isinstance(node.args[0], Const):
            text = self.guarded(
                right,
                left.kind,
                lambda t: f"({left.text} {sign} {t})",
                lambda t: f"{exact}({left.text}, {t})",
            )
            return Piece(text, bool)
        return Piece(f"{exact}({left.text}, {right.text})", bool)

    def order(self, node: Call) -> Piece | None:
        """Write `<` and its like against constants."""
        compared = self.compared(node)
        if compared is not None:
            return compared
        left, right = map(self.piece, node.args)
        sign = _ORDER[node.function]
        if left.kind is right.kind and left.kind in (str, int):
            return Piece(f"({left.text} {sign} {right.text})", bool)
        if right.kind in (str, int) and isinstance(node.args[1], Const):
            exact = self._keep("D", self._checked.calls[node].dispatch)
            return Piece(
                self.guarded(
                    left,
                    right.kind,
                    lambda t: f"({t} {sign} {right.text})",
                    lambda t: f"{exact}({t}, {right.text})",
                ),
                bool,
            )
        return None

    def compared(self, node: Call) -> Piece | None:
        """Write `a.compareTo(b) <op> 0` as `a <op> b`."""
        left, right = node.args
        if not (
            isinstance(left, Call)
            and left.function == "compareTo"
            and left.target is not None
            and isinstance(right, Const)
            and type(right.value) is int
            and right.value == 0
        ):
            return None
        sign = _ORDER[node.function]
        return self.amounts(left, sign, f"{{}} {sign} 0")

    def amounts(self, node: Call, sign: str, exact: str) -> Piece | None:
        """Write a comparison of two quantities or versions; `exact` is how to read the exact function's answer."""
        if node.target is None:
            return None
        left, right = self.piece(node.target), self.piece(node.args[0])
        if right.kind not in (Quantity, Semver):
            return None
        field = "nano" if right.kind is Quantity else "key"
        known = self.names.get(right.text)
        other = f"{right.text}.{field}"
        if type(known) is Quantity:
            other = str(known.nano)
        elif type(known) is Semver:
            other = self._keep("K", known.key)
        if left.kind is right.kind:
            return Piece(f"({left.text}.{field} {sign} {other})", bool)
        if left.kind is not None or right.kind is Quantity:
            return None
        call = self._keep("D", self._checked.calls[node].dispatch)
        return Piece(
            self.guarded(
                left,
                Semver,
                lambda t: f"({t}.key {sign} {other})",
                lambda t: f"({exact.format(f'{call}({t}, {right.text})')})",
            ),
            bool,
        )

    def comparison(self, node: Call) -> Piece | None:
        """Write `isGreaterThan` and `isLessThan`."""
        return self.amounts(node, _COMPARE[node.function], "{}")

    def made(self, node: Call) -> Piece | None:
        """Write `quantity("40Gi")` and `semver("1.2.3")` as constants."""
        values = [arg.value for arg in node.args if isinstance(arg, Const)]
        if len(values) != len(node.args):
            return None
        try:
            value: Value = quantity(*values) if node.function == "quantity" else semver(*values)
        except CelFailure:
            return None
        return self._constant(value)

    def matches(self, node: Call) -> Piece | None:
        """Write `matches` of a constant pattern as a look-up of results seen before."""
        subject, pattern = self._checked.calls[node].args
        if not isinstance(pattern, Const):
            return None
        call = self._keep("D", self._checked.calls[node].dispatch)
        memo = self._keep("M", results(pattern.value))

        def test(text: str) -> str:
            return plain_test(pattern.value, text) or f"{memo}[{text}]"

        piece = self.piece(subject)
        return Piece(self.guarded(piece, str, test, lambda t: f"{call}({t}, {pattern.value!a})"), bool)

    def text_test(self, node: Call) -> Piece | None:
        """Write `startsWith`, `endsWith` and `contains` of a constant."""
        if node.target is None or not isinstance(node.args[0], Const):
            return None
        call = self._keep("D", self._checked.calls[node].dispatch)
        part = ascii(node.args[0].value)
        forms = {"startsWith": "{}.startswith({})", "endsWith": "{}.endswith({})", "contains": "({1} in {0})"}
        form = forms[node.function]
        text = self.guarded(
            self.piece(node.target), str, lambda t: form.format(t, part), lambda t: f"{call}({t}, {part})"
        )
        return Piece(text, bool)

    def inside(self, node: Call) -> Piece | None:
        """Write `in` for a list of constants, or for a constant name in a domain."""
        entry = entry_of(node, self._bound)
        if entry is not None:
            return Piece(f"({entry[1]!a} in {self._flat(entry[0])})", bool)
        needle, container = node.args
        if not isinstance(container, ListLiteral) or not all(
            isinstance(item, Const) for item in container.items
        ):
            return None
        known = tuple(item.value for item in container.items if isinstance(item, Const))
        exact = self._keep("D", member_of(known))
        kinds = {type(value) for value in known}
        piece = self.piece(needle)
        if kinds not in ({str}, {int}):
            return Piece(f"{exact}({piece.text})", bool)
        members = self._keep("K", frozenset(known))
        return Piece(
            self.guarded(piece, kinds.pop(), lambda t: f"({t} in {members})", lambda t: f"{exact}({t})"), bool
        )

    def includes(self, node: Call) -> Piece | None:
        """Write `includes` of a constant string."""
        if node.target is None or not isinstance(node.args[0], Const) or type(node.args[0].value) is not str:
            return None
        call, wanted = self._keep("D", self._checked.calls[node].dispatch), ascii(node.args[0].value)
        text = self.guarded(
            self.piece(node.target), str, lambda t: f"({t} == {wanted})", lambda t: f"{call}({t}, {wanted})"
        )
        return Piece(text, bool)

    def size(self, node: Call) -> Piece | None:
        """Write `size` of what certainly has a length."""
        (subject,) = self._checked.calls[node].args
        piece = self.piece(subject)
        return Piece(f"len({piece.text})", int) if piece.kind in (str, tuple, bytes) else None

    def has_value(self, node: Call) -> Piece | None:
        """Write `hasValue()` of an optional look-up as a test."""
        entry = entry_of(node.target, self._bound) if isinstance(node.target, Select | Call) else None
        if entry is None or not _optional(node.target):
            return None
        return Piece(f"({entry[1]!a} in {self._flat(entry[0])})", bool)

    def or_value(self, node: Call) -> Piece | None:
        """Write `orValue`."""
        if node.target is None:
            return None
        other = self.piece(node.args[0])
        entry = entry_of(node.target, self._bound)
        name = self._name("t")
        if entry is not None and _optional(node.target):
            flat = self._flat(entry[0])
            if isinstance(node.args[0], Const):
                return Piece(f"{flat}.get({entry[1]!a}, {other.text})")
            return Piece(
                f"({name} if ({name} := {flat}.get({entry[1]!a}, MISSING)) is not MISSING else {other.text})"
            )
        held = self.piece(node.target)
        if held.kind is not Optional:
            raise Unsupported
        return Piece(f"({name}.value if ({name} := {held.text}).present else {other.text})")

    def unsupported(self, node: Call) -> Piece | None:
        """Refuse."""
        raise Unsupported(node.function)

    def _macro(self, node: Macro) -> Piece:
        if node.kind == "bind":
            return self._bind(node)
        pair = len(node.names) == 2
        source = f"{'PAIRS' if pair else 'ITEMS'}({self.piece(node.source).text})"
        over, names = self._name("t"), [self._name("c") for _ in node.names]
        self._use("LOOP")
        kept = self._bound, self._variables
        self._bound = {**self._bound, **dict.fromkeys(node.names)}
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
        self._bound, self._variables = kept
        # What is ranged over gets a name first: Python allows no assignment inside the iterable.
        return Piece(f"({text} if ({over} := {source}) is not None else NSO())", kind)

    def _bind(self, node: Macro) -> Piece:
        (variable,) = node.names
        path = path_of(node.source, self._bound)
        kept = self._bound, self._variables
        self._variables = {name: text for name, text in self._variables.items() if name != variable}
        if path is not None:
            # The path is looked up where it is used, which is just as lazy.
            self._bound = {**self._bound, variable: path}
            body = self.piece(node.bodies[0])
        else:
            init, name = self.piece(node.source).text, self._name("b")
            self._bound = {**self._bound, variable: None}
            self._variables[variable] = name
            inner = self.piece(node.bodies[0])
            body = Piece(f"({name} := {init}, {inner.text})[1]", inner.kind)
        self._bound, self._variables = kept
        return body


def _optional(node: Node | None) -> bool:
    return (isinstance(node, Select) and node.optional) or (
        isinstance(node, Call) and node.function == "_[?_]"
    )


_WRITERS: Final[dict[str, Callable[[Writer, Call], Piece | None]]] = {
    "_[_]": Writer.index,
    "_[?_]": Writer.index,
    "_==_": Writer.equality,
    "_!=_": Writer.equality,
    "_<_": Writer.order,
    "_<=_": Writer.order,
    "_>_": Writer.order,
    "_>=_": Writer.order,
    "isGreaterThan": Writer.comparison,
    "isLessThan": Writer.comparison,
    "quantity": Writer.made,
    "semver": Writer.made,
    "matches": Writer.matches,
    "startsWith": Writer.text_test,
    "endsWith": Writer.text_test,
    "contains": Writer.text_test,
    "@in": Writer.inside,
    "includes": Writer.includes,
    "size": Writer.size,
    "hasValue": Writer.has_value,
    "orValue": Writer.or_value,
    "or": Writer.unsupported,
}
