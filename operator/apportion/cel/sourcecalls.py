"""Fast forms of operators and functions: what a call becomes when some of its arguments are constants.

Each takes the writer and the call, and returns None where the general form (a call of the exact function) must do.
"""

from collections.abc import Mapping
from typing import Final

from apportion.cel.closures import member_of
from apportion.cel.library.quantities import quantity
from apportion.cel.library.regexes import results
from apportion.cel.library.semvers import semver
from apportion.cel.paths import entry_of
from apportion.cel.patterns import plain_test
from apportion.cel.piece import Piece, Unsupported
from apportion.cel.source import WriteCall, Writer
from apportion.cel.syntax import Call, Const, ListLiteral, Node, Select
from apportion.cel.values import CelFailure, Optional, Value
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_ORDER: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}
_COMPARE: Final = {"isGreaterThan": ">", "isLessThan": "<"}


def index(writer: Writer, node: Call) -> Piece | None:
    """Write `a[b]` and `a[?b]`."""
    if node.function == "_[?_]":
        args = ", ".join(writer.piece(arg).text for arg in node.args)
        return Piece(f"OPT({args})", Optional)
    entry = writer.entry(entry_of(node, writer.bound)) or writer.path(node)
    return entry or Piece(f"FIND({', '.join(writer.piece(arg).text for arg in node.args)})")


def equality(writer: Writer, node: Call) -> Piece | None:
    """Write `==` and `!=`; constants on one side leave one test of a class."""
    sign, exact = _ORDER[node.function], "EQ" if node.function == "_==_" else "NE"
    compared = compared_to(writer, node)
    if compared is not None:
        return compared
    left, right = map(writer.piece, node.args)
    if left.kind is right.kind and left.kind in (str, int, bool, bytes):
        return Piece(f"({left.text} {sign} {right.text})", bool)
    if right.kind in (str, int) and isinstance(node.args[1], Const):
        text = writer.guarded(
            left,
            right.kind,
            lambda t: f"({t} {sign} {right.text})",
            lambda t: f"{exact}({t}, {right.text})",
        )
        return Piece(text, bool)
    if left.kind in (str, int) and isinstance(node.args[0], Const):
        text = writer.guarded(
            right,
            left.kind,
            lambda t: f"({left.text} {sign} {t})",
            lambda t: f"{exact}({left.text}, {t})",
        )
        return Piece(text, bool)
    return Piece(f"{exact}({left.text}, {right.text})", bool)


def order(writer: Writer, node: Call) -> Piece | None:
    """Write `<` and its like against constants."""
    compared = compared_to(writer, node)
    if compared is not None:
        return compared
    left, right = map(writer.piece, node.args)
    sign = _ORDER[node.function]
    if left.kind is right.kind and left.kind in (str, int):
        return Piece(f"({left.text} {sign} {right.text})", bool)
    if right.kind in (str, int) and isinstance(node.args[1], Const):
        exact = writer.keep("D", writer.checked.calls[node].dispatch)
        return Piece(
            writer.guarded(
                left,
                right.kind,
                lambda t: f"({t} {sign} {right.text})",
                lambda t: f"{exact}({t}, {right.text})",
            ),
            bool,
        )
    return None


def compared_to(writer: Writer, node: Call) -> Piece | None:
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
    return amounts(writer, left, sign, f"{{}} {sign} 0")


def amounts(writer: Writer, node: Call, sign: str, exact: str) -> Piece | None:
    """Write a comparison of two quantities or versions; `exact` is how to read the exact function's answer."""
    if node.target is None:
        return None
    left, right = writer.piece(node.target), writer.piece(node.args[0])
    if right.kind not in (Quantity, Semver):
        return None
    field = "nano" if right.kind is Quantity else "key"
    known = writer.names.get(right.text)
    other = f"{right.text}.{field}"
    if type(known) is Quantity:
        other = str(known.nano)
    elif type(known) is Semver:
        other = writer.keep("K", known.key)
    if left.kind is right.kind:
        return Piece(f"({left.text}.{field} {sign} {other})", bool)
    if left.kind is not None or right.kind is Quantity:
        return None
    call = writer.keep("D", writer.checked.calls[node].dispatch)
    return Piece(
        writer.guarded(
            left,
            Semver,
            lambda t: f"({t}.key {sign} {other})",
            lambda t: f"({exact.format(f'{call}({t}, {right.text})')})",
        ),
        bool,
    )


def comparison(writer: Writer, node: Call) -> Piece | None:
    """Write `isGreaterThan` and `isLessThan`."""
    return amounts(writer, node, _COMPARE[node.function], "{}")


def made(writer: Writer, node: Call) -> Piece | None:
    """Write `quantity("40Gi")` and `semver("1.2.3")` as constants."""
    values = [arg.value for arg in node.args if isinstance(arg, Const)]
    if len(values) != len(node.args):
        return None
    try:
        value: Value = quantity(*values) if node.function == "quantity" else semver(*values)
    except CelFailure:
        return None
    return writer.constant(value)


def matches(writer: Writer, node: Call) -> Piece | None:
    """Write `matches` of a constant pattern as a look-up of results seen before."""
    subject, pattern = writer.checked.calls[node].args
    if not isinstance(pattern, Const):
        return None
    call = writer.keep("D", writer.checked.calls[node].dispatch)
    memo = writer.keep("M", results(pattern.value))

    def test(text: str) -> str:
        return plain_test(pattern.value, text) or f"{memo}[{text}]"

    piece = writer.piece(subject)
    return Piece(writer.guarded(piece, str, test, lambda t: f"{call}({t}, {pattern.value!a})"), bool)


def text_test(writer: Writer, node: Call) -> Piece | None:
    """Write `startsWith`, `endsWith` and `contains` of a constant."""
    if node.target is None or not isinstance(node.args[0], Const):
        return None
    call = writer.keep("D", writer.checked.calls[node].dispatch)
    part = ascii(node.args[0].value)
    forms = {"startsWith": "{}.startswith({})", "endsWith": "{}.endswith({})", "contains": "({1} in {0})"}
    form = forms[node.function]
    text = writer.guarded(
        writer.piece(node.target), str, lambda t: form.format(t, part), lambda t: f"{call}({t}, {part})"
    )
    return Piece(text, bool)


def inside(writer: Writer, node: Call) -> Piece | None:
    """Write `in` for a list of constants, or for a constant name in a domain."""
    entry = entry_of(node, writer.bound)
    if entry is not None:
        return Piece(f"({entry[1]!a} in {writer.flat(entry[0])})", bool)
    needle, container = node.args
    if not isinstance(container, ListLiteral) or not all(isinstance(item, Const) for item in container.items):
        return None
    known = tuple(item.value for item in container.items if isinstance(item, Const))
    exact = writer.keep("D", member_of(known))
    kinds = {type(value) for value in known}
    piece = writer.piece(needle)
    if kinds not in ({str}, {int}):
        return Piece(f"{exact}({piece.text})", bool)
    members = writer.keep("K", frozenset(known))
    return Piece(
        writer.guarded(piece, kinds.pop(), lambda t: f"({t} in {members})", lambda t: f"{exact}({t})"), bool
    )


def includes(writer: Writer, node: Call) -> Piece | None:
    """Write `includes` of a constant string."""
    if node.target is None or not isinstance(node.args[0], Const) or type(node.args[0].value) is not str:
        return None
    call, wanted = writer.keep("D", writer.checked.calls[node].dispatch), ascii(node.args[0].value)
    text = writer.guarded(
        writer.piece(node.target), str, lambda t: f"({t} == {wanted})", lambda t: f"{call}({t}, {wanted})"
    )
    return Piece(text, bool)


def size(writer: Writer, node: Call) -> Piece | None:
    """Write `size` of what certainly has a length."""
    (subject,) = writer.checked.calls[node].args
    piece = writer.piece(subject)
    return Piece(f"len({piece.text})", int) if piece.kind in (str, tuple, bytes) else None


def has_value(writer: Writer, node: Call) -> Piece | None:
    """Write `hasValue()` of an optional look-up as a test."""
    entry = entry_of(node.target, writer.bound) if isinstance(node.target, Select | Call) else None
    if entry is None or not _optional(node.target):
        return None
    return Piece(f"({entry[1]!a} in {writer.flat(entry[0])})", bool)


def or_value(writer: Writer, node: Call) -> Piece | None:
    """Write `orValue`."""
    if node.target is None:
        return None
    other = writer.piece(node.args[0])
    entry = entry_of(node.target, writer.bound)
    name = writer.name("t")
    if entry is not None and _optional(node.target):
        flat = writer.flat(entry[0])
        if isinstance(node.args[0], Const):
            return Piece(f"{flat}.get({entry[1]!a}, {other.text})")
        return Piece(
            f"({name} if ({name} := {flat}.get({entry[1]!a}, MISSING)) is not MISSING else {other.text})"
        )
    held = writer.piece(node.target)
    if held.kind is not Optional:
        raise Unsupported
    return Piece(f"({name}.value if ({name} := {held.text}).present else {other.text})")


def unsupported(_: Writer, node: Call) -> Piece | None:
    """Refuse."""
    raise Unsupported(node.function)


def _optional(node: Node | None) -> bool:
    return (isinstance(node, Select) and node.optional) or (
        isinstance(node, Call) and node.function == "_[?_]"
    )


CALLS: Final[Mapping[str, WriteCall]] = {
    "_[_]": index,
    "_[?_]": index,
    "_==_": equality,
    "_!=_": equality,
    "_<_": order,
    "_<=_": order,
    "_>_": order,
    "_>=_": order,
    "isGreaterThan": comparison,
    "isLessThan": comparison,
    "quantity": made,
    "semver": made,
    "matches": matches,
    "startsWith": text_test,
    "endsWith": text_test,
    "contains": text_test,
    "@in": inside,
    "includes": includes,
    "size": size,
    "hasValue": has_value,
    "orValue": or_value,
    "or": unsupported,
}
