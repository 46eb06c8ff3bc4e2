"""The checker of names, functions and types, which needs no device.

In: a syntax tree. Out: `Checked`, with the type of every node and the possible overloads of every call. Raises SelectorError
with line and column: undeclared reference, undefined field, no matching overload, mixed literals, bad constant patterns, a
result that is no bool.
"""

from collections.abc import Iterable

from apportion.cel.check.checked import Checked, Resolved
from apportion.cel.check.literalcheck import check_literals
from apportion.cel.check.macrocheck import MacroCheck
from apportion.cel.library.environment import FUNCTION_NAMES, FUNCTIONS
from apportion.cel.library.functions import Dispatch
from apportion.cel.syntax import tree
from apportion.cel.syntax.tree import Node, children, inside_out
from apportion.cel.types import (
    BOOL,
    BYTES,
    DEVICE,
    DEVICE_FIELDS,
    DOUBLE,
    DYN,
    INT,
    NULL,
    STRING,
    UINT,
    TooLarge,
    Type,
    list_of,
    map_of,
    optional_of,
    parse_type,
    type_of,
    unwrapped,
)
from apportion.cel.values import TypeValue, Uint
from apportion.errors import SelectorError

_CONSTANTS = {bool: BOOL, int: INT, Uint: UINT, float: DOUBLE, str: STRING, bytes: BYTES, type(None): NULL}
_VALUE_TYPES = frozenset(
    "bool int uint double string bytes list map type null_type optional_type net.IP net.CIDR".split()  # noqa: SIM905
) | {"google.protobuf.Timestamp", "google.protobuf.Duration"}
"""Types that may be used as values."""


def check(text: str, root: Node) -> Checked:
    """Check a selector; raises SelectorError."""
    checker = _Checker(text, root)
    try:
        result = checker.visit(root)
        checker.finish()
    except (RecursionError, TooLarge):
        raise SelectorError("compilation failed: the expression is nested too deeply") from None
    final = checker.unifier.resolve(result, final=True)
    if final not in (BOOL, DYN):
        raise SelectorError(f"must evaluate to bool or the unknown type, not {_declared(final)}")
    check_literals(text, checker.checked)
    return checker.checked


def _declared(found: Type) -> str:
    """Print a type as the reference implementation does in the error for a result that is no bool."""
    if not found.params:
        names = {
            "null": "null_type",
            "timestamp": "google.protobuf.Timestamp",
            "duration": "google.protobuf.Duration",
        }
        return names.get(found.name, found.name)
    return f"{found.name}({', '.join(map(_declared, found.params))})"


class _Checker(MacroCheck):
    def finish(self) -> None:
        """Resolve all types; type parameters that are still unbound become dyn."""
        types = self.checked.types
        for node, found in types.items():
            types[node] = self.unifier.resolve(found, final=True)

    def visit(self, node: Node) -> Type:
        """Return a node's type, after those of its parts."""
        return inside_out(node, self.checked.types, self._parts, self._visit)

    def _parts(self, node: Node) -> Iterable[Node]:
        """Return the parts whose types are found in the present scope."""
        match node:
            case tree.Macro():
                return [node.source]
            case tree.Call() if node.function not in FUNCTION_NAMES and not self._namespace(node):
                return []
            case tree.Call() if node.target is not None and self._namespace(node):
                return node.args
            case tree.Select() if self._names_type(node):
                return []
        return children(node)

    def _namespace(self, node: tree.Call) -> str:
        """Return the qualified name of a global function, "" for a method call."""
        qualifier = _qualified(node.target) if node.target is not None else ""
        name = f"{qualifier}.{node.function}"
        if qualifier and (name, False) in FUNCTIONS:
            return name
        return ""

    def _names_type(self, node: tree.Select) -> bool:
        name = "" if node.test or node.optional else _qualified(node)
        return name in _VALUE_TYPES and name.split(".")[0] not in self.scope

    def _visit(self, node: Node) -> Type:
        match node:
            case tree.Const():
                return _CONSTANTS[type(node.value)]
            case tree.Ident():
                return self._ident(node)
            case tree.Select():
                return self._select(node)
            case tree.Call():
                return self._call(node)
            case tree.Logic():
                name = "_&&_" if node.conjunction else "_||_"
                return self._booleans(node, name, node.args)
            case tree.Repeated():
                return self._repeated(node)
            case tree.Conditional():
                return self._conditional(node)
            case tree.ListLiteral():
                return self._list(node)
            case tree.MapLiteral():
                return self._map(node)
            case tree.Macro():
                return self.macro(node)

    def _ident(self, node: tree.Ident) -> Type:
        found = self.scope.get(node.name)
        if found is not None:
            return found
        if node.name in _VALUE_TYPES:
            return self._type_name(node, node.name)
        raise self.error(node, f"undeclared reference to '{node.name}' (in container '')")

    def _type_name(self, node: Node, name: str) -> Type:
        self.checked.constants[node] = TypeValue(name)
        return type_of(parse_type(name))

    def _select(self, node: tree.Select) -> Type:
        if self._names_type(node):
            return self._type_name(node, _qualified(node))
        operand = self.unifier.resolve(self.visit(node.operand))
        target, wrapped = unwrapped(operand)
        if target.name == "map":
            found = target.params[1]
        elif target == DEVICE:
            if node.field not in DEVICE_FIELDS:
                raise self.error(node, f"undefined field '{node.field}'")
            found = DEVICE_FIELDS[node.field]
        elif target.is_param:
            self.unifier.assignable((DYN,), (target,))
            found = DYN
        elif target == DYN:
            found = DYN
        else:
            raise self.error(node, f"type '{self.shown(target)}' does not support field selection")
        if node.test:
            return BOOL
        return optional_of(found) if wrapped or node.optional else found

    def _call(self, node: tree.Call) -> Type:
        namespace = self._namespace(node)
        if namespace:
            return self._resolve(node, namespace, node.args, method=False)
        if node.function not in FUNCTION_NAMES:
            raise self.error(node, f"undeclared reference to '{node.function}' (in container '')")
        if node.target is not None:
            return self._resolve(node, node.function, (node.target, *node.args), method=True)
        return self._resolve(node, node.function, node.args, method=False)

    def _resolve(self, node: Node, name: str, args: tuple[Node, ...], *, method: bool) -> Type:
        actual = tuple(self.visit(arg) for arg in args)
        fitting, result = [], None
        for one in FUNCTIONS.get((name, method), ()):
            if len(one.params) != len(actual):
                continue
            *params, returned = self.unifier.fresh((*one.params, one.result))
            if self.unifier.assignable(actual, tuple(params)):
                fitting.append(one)
                returned = self.unifier.resolve(returned)
                result = returned if result is None or result == returned else DYN
        if result is None:
            raise self.no_overload(node, name, actual, method=method)
        self.checked.calls[node] = Resolved(Dispatch(tuple(fitting)), args)
        return result

    def _booleans(self, node: Node, name: str, args: tuple[Node, ...]) -> Type:
        actual = tuple(self.visit(arg) for arg in args)
        for found in actual:
            self.must_be_bool(node, found, name, actual)
        return BOOL

    def _repeated(self, node: tree.Repeated) -> Type:
        if node.times % 2 == 0:
            return self.visit(node.operand)
        if node.operator == "!":
            return self._booleans(node, "!_", (node.operand,))
        return self._resolve(node, "-_", (node.operand,), method=False)

    def _conditional(self, node: tree.Conditional) -> Type:
        actual = (self.visit(node.condition), self.visit(node.yes), self.visit(node.no))
        condition, yes, no = self.unifier.fresh((BOOL, Type("T"), Type("T")))
        if not self.unifier.assignable(actual, (condition, yes, no)):
            raise self.no_overload(node, "_?_:_", actual)
        return self.unifier.resolve(yes)

    def _list(self, node: tree.ListLiteral) -> Type:
        joined: Type | None = None
        for index, item in enumerate(node.items):
            found = self.visit(item)
            if index in node.optional:
                found = self._opened(item, found)
            joined = self._joined(joined, found)
        return list_of(joined or self.new())

    def _map(self, node: tree.MapLiteral) -> Type:
        keys: Type | None = None
        values: Type | None = None
        for key, value, optional in node.entries:
            keys = self._joined(keys, self.visit(key))
            found = self.visit(value)
            if optional:
                found = self._opened(value, found)
            values = self._joined(values, found)
        return map_of(keys or self.new(), values or self.new())

    def _opened(self, node: Node, found: Type) -> Type:
        inner, wrapped = unwrapped(self.unifier.resolve(found))
        if not wrapped and inner != DYN:
            raise self.error(
                node, f"expected type 'optional_type({self.shown(inner)})' but found '{self.shown(inner)}'"
            )
        return inner

    def _joined(self, one: Type | None, other: Type) -> Type:
        if one is None:
            return other
        holder = self.new()
        if self.unifier.assignable((one, other), (holder, holder)):
            return self.unifier.resolve(holder)
        return DYN


def _qualified(node: Node) -> str:
    """Return "a.b.c" for a chain of names, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, tree.Select) and not node.test and not node.optional:
        parts.append(node.field)
        node = node.operand
    return ".".join([node.name, *reversed(parts)]) if isinstance(node, tree.Ident) else ""
