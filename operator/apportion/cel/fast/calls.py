"""Fast forms of operators and functions, for calls with constant arguments.

Each writer takes a call, and returns None where the general form (a call of the exact function) must do.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from apportion.cel.check.reads import entry_of
from apportion.cel.fast.fragments import Fragment, Unsupported
from apportion.cel.fast.writer import WriteCall, Writer
from apportion.cel.library.kubernetes import quantity, semver
from apportion.cel.library.lookup import member_of
from apportion.cel.library.regexes import results
from apportion.cel.syntax.tree import Call, Const, ListLiteral, Node, Select
from apportion.cel.values import CelFailure, Optional, Value
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver

_ORDER: Final = {"_<_": "<", "_<=_": "<=", "_>_": ">", "_>=_": ">=", "_==_": "==", "_!=_": "!="}
_COMPARE: Final = {"isGreaterThan": ">", "isLessThan": "<"}
_PLAIN: Final = re.compile(r"(\^)?((?:\.\*)?)([A-Za-z0-9_ /:-]*)((?:\.\*)?)(\$)?", re.ASCII)
"""Patterns that need no regular expression: "H100", "^NVIDIA", ".*A100.*"."""
_TEXT_TESTS: Final = {
    "startsWith": "{}.startswith({})",
    "endsWith": "{}.endswith({})",
    "contains": "({1} in {0})",
    "includes": "({} == {})",
}


def index(writer: Writer, node: Call) -> Fragment | None:
    """Write `a[b]` and `a[?b]`."""
    if node.function == "_[?_]":
        args = ", ".join(writer.fragment(arg).text for arg in node.args)
        return Fragment(f"OPT({args})", Optional)
    entry = writer.entry(entry_of(node, writer.bound)) or writer.path(node)
    return entry or Fragment(f"FIND({', '.join(writer.fragment(arg).text for arg in node.args)})")


def equality(writer: Writer, node: Call) -> Fragment | None:
    """Write `==` and `!=`; against a constant, one test of the other side's class allows Python's operator."""
    compared = compare_to_zero(writer, node)
    if compared is not None:
        return compared
    left, right = map(writer.fragment, node.args)
    sign, exact = _ORDER[node.function], "EQ" if node.function == "_==_" else "NE"
    if left.cls is right.cls and left.cls in (str, int, bool, bytes):
        return Fragment(f"({left.text} {sign} {right.text})", bool)
    if right.cls in (str, int) and isinstance(node.args[1], Const):
        text = writer.guarded(
            left, right.cls, lambda t: f"({t} {sign} {right.text})", lambda t: f"{exact}({t}, {right.text})"
        )
    elif left.cls in (str, int) and isinstance(node.args[0], Const):
        text = writer.guarded(
            right, left.cls, lambda t: f"({left.text} {sign} {t})", lambda t: f"{exact}({left.text}, {t})"
        )
    else:
        text = f"{exact}({left.text}, {right.text})"
    return Fragment(text, bool)


def order(writer: Writer, node: Call) -> Fragment | None:
    """Write `<` and its like against constants."""
    compared = compare_to_zero(writer, node)
    if compared is not None:
        return compared
    left, right = map(writer.fragment, node.args)
    sign = _ORDER[node.function]
    if left.cls is right.cls and left.cls in (str, int):
        return Fragment(f"({left.text} {sign} {right.text})", bool)
    if right.cls in (str, int) and isinstance(node.args[1], Const):
        return _tested(writer, node, left, right.cls, right.text, lambda t: f"({t} {sign} {right.text})")
    return None


def _tested(
    writer: Writer, node: Call, subject: Fragment, cls: type, arg: str, test: Callable[[str], str]
) -> Fragment:
    """Write `test` for a subject of the class; for any other, the exact function of (subject, arg)."""
    call = writer.keep("D", writer.checked.calls[node].dispatch)
    return Fragment(writer.guarded(subject, cls, test, lambda t: f"{call}({t}, {arg})"), bool)


def compare_to_zero(writer: Writer, node: Call) -> Fragment | None:
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
    return write_comparison(writer, left, sign, f"{{}} {sign} 0")


def write_comparison(writer: Writer, node: Call, sign: str, exact: str) -> Fragment | None:
    """Write a comparison of two quantities or versions; `exact` turns the exact function's answer into a bool."""
    if node.target is None:
        return None
    left, right = writer.fragment(node.target), writer.fragment(node.args[0])
    if right.cls not in (Quantity, Semver):
        return None
    field = "nano" if right.cls is Quantity else "key"
    known = writer.values.get(right.text)
    other = f"{right.text}.{field}"
    if type(known) is Quantity:
        other = str(known.nano)
    elif type(known) is Semver:
        other = writer.keep("K", known.key)
    if left.cls is right.cls:
        return Fragment(f"({left.text}.{field} {sign} {other})", bool)
    if left.cls is not None or right.cls is Quantity:
        return None
    call = writer.keep("D", writer.checked.calls[node].dispatch)
    return Fragment(
        writer.guarded(
            left,
            Semver,
            lambda t: f"({t}.key {sign} {other})",
            lambda t: f"({exact.format(f'{call}({t}, {right.text})')})",
        ),
        bool,
    )


def comparison(writer: Writer, node: Call) -> Fragment | None:
    """Write `isGreaterThan` and `isLessThan`."""
    return write_comparison(writer, node, _COMPARE[node.function], "{}")


def constant_call(writer: Writer, node: Call) -> Fragment | None:
    """Write `quantity("40Gi")` and `semver("1.2.3")` as constants."""
    values = [arg.value for arg in node.args if isinstance(arg, Const)]
    if len(values) != len(node.args):
        return None
    try:
        value: Value = quantity(*values) if node.function == "quantity" else semver(*values)
    except CelFailure:
        return None
    return writer.constant(value)


def matches(writer: Writer, node: Call) -> Fragment | None:
    """Write `matches` of a constant pattern as a look-up of results seen before."""
    subject, pattern = writer.checked.calls[node].args
    if not isinstance(pattern, Const):
        return None
    memo = writer.keep("M", results(pattern.value))

    def test(text: str) -> str:
        return plain_test(pattern.value, text) or f"{memo}[{text}]"

    return _tested(writer, node, writer.fragment(subject), str, ascii(pattern.value), test)


def plain_test(pattern: str, text: str) -> str | None:
    """Write whether a pattern without special characters is found in `text`, itself an expression of a str."""
    found = _PLAIN.fullmatch(pattern)
    if found is None:
        return None
    start, before, literal, after, end = found.groups()
    if (start and before) or (end and after):
        return None  # `.` stops at a newline, so an anchored `.*` is not the same as nothing
    if start and end:
        return f"({text} == {literal!r})"
    if start:
        return f"{text}.startswith({literal!r})"
    if end:
        return f"{text}.endswith({literal!r})"
    return f"({literal!r} in {text})"


def text_test(writer: Writer, node: Call) -> Fragment | None:
    """Write `startsWith`, `endsWith` and `contains` of a constant, and `includes` of a constant string."""
    if node.target is None or not isinstance(node.args[0], Const):
        return None
    if node.function == "includes" and type(node.args[0].value) is not str:
        return None
    arg, form = ascii(node.args[0].value), _TEXT_TESTS[node.function]
    return _tested(writer, node, writer.fragment(node.target), str, arg, lambda t: form.format(t, arg))


def inside(writer: Writer, node: Call) -> Fragment | None:
    """Write `in` for a list of constants, or for a constant name in a domain."""
    entry = entry_of(node, writer.bound)
    if entry is not None:
        return Fragment(f"({entry[1]!a} in {writer.flat(entry[0])})", bool)
    needle, container = node.args
    if not isinstance(container, ListLiteral) or not all(isinstance(item, Const) for item in container.items):
        return None
    known = tuple(item.value for item in container.items if isinstance(item, Const))
    exact = writer.keep("D", member_of(known))
    classes = {type(value) for value in known}
    fragment = writer.fragment(needle)
    if classes not in ({str}, {int}):
        return Fragment(f"{exact}({fragment.text})", bool)
    members = writer.keep("K", frozenset(known))
    return Fragment(
        writer.guarded(fragment, classes.pop(), lambda t: f"({t} in {members})", lambda t: f"{exact}({t})"),
        bool,
    )


def size(writer: Writer, node: Call) -> Fragment | None:
    """Write `size` of what certainly has a length."""
    (subject,) = writer.checked.calls[node].args
    fragment = writer.fragment(subject)
    return Fragment(f"len({fragment.text})", int) if fragment.cls in (str, tuple, bytes) else None


def has_value(writer: Writer, node: Call) -> Fragment | None:
    """Write `hasValue()` of an optional look-up as a test."""
    entry = entry_of(node.target, writer.bound) if isinstance(node.target, Select | Call) else None
    if entry is None or not _optional(node.target):
        return None
    return Fragment(f"({entry[1]!a} in {writer.flat(entry[0])})", bool)


def or_value(writer: Writer, node: Call) -> Fragment | None:
    """Write `orValue`."""
    if node.target is None:
        return None
    other = writer.fragment(node.args[0])
    entry = entry_of(node.target, writer.bound)
    name = writer.name("t")
    if entry is not None and _optional(node.target):
        flat = writer.flat(entry[0])
        if isinstance(node.args[0], Const):
            return Fragment(f"{flat}.get({entry[1]!a}, {other.text})")
        return Fragment(
            f"({name} if ({name} := {flat}.get({entry[1]!a}, MISSING)) is not MISSING else {other.text})"
        )
    held = writer.fragment(node.target)
    if held.cls is not Optional:
        raise Unsupported
    return Fragment(f"({name}.value if ({name} := {held.text}).present else {other.text})")


def unsupported(_: Writer, node: Call) -> Fragment | None:
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
    "quantity": constant_call,
    "semver": constant_call,
    "matches": matches,
    "startsWith": text_test,
    "endsWith": text_test,
    "contains": text_test,
    "@in": inside,
    "includes": text_test,
    "size": size,
    "hasValue": has_value,
    "orValue": or_value,
    "or": unsupported,
}
