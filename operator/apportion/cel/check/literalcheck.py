"""Checks of constants, which Kubernetes makes at compile time since 1.29.

They find patterns, durations and timestamps that cannot be parsed, and list or map literals of mixed types.
"""

from collections.abc import Callable
from typing import Final

from apportion.cel.check.checked import Checked, Resolved
from apportion.cel.library.regexes import compiled
from apportion.cel.library.stringformat import CLAUSES, TAKEN, clauses
from apportion.cel.library.times import parse_duration, parse_timestamp
from apportion.cel.syntax.parse import error_at
from apportion.cel.syntax.tree import Call, Const, ListLiteral, MapLiteral, children
from apportion.cel.types import Type
from apportion.cel.values import CelFailure

_READERS: Final[dict[tuple[str, int], Callable[[str], object]]] = {
    ("matches", 1): compiled,
    ("find", 1): compiled,
    ("findAll", 1): compiled,
    ("duration", 0): parse_duration,
    ("timestamp", 0): parse_timestamp,
}


def check_literals(text: str, checked: Checked) -> None:
    """Raise SelectorError for the first constant that always fails."""
    # A loop, as chains may be longer than the stack. The flag marks nodes inside a call of `format`, whose argument list
    # may be mixed.
    waiting = [(checked.root, False)]
    while waiting:
        node, exempt = waiting.pop()
        if isinstance(node, Call):
            _check_call(text, node, checked)
            exempt = exempt or node.function == "format"
        elif not exempt and isinstance(node, ListLiteral):
            _check_list(text, node, checked)
        elif not exempt and isinstance(node, MapLiteral):
            _check_map(text, node, checked)
        waiting.extend((inner, exempt) for inner in children(node))


def _check_call(text: str, node: Call, checked: Checked) -> None:
    resolved = checked.calls.get(node)
    if resolved is None:
        return
    if node.function == "format" and len(resolved.args) == 2:
        _check_format(text, node, resolved, checked)
    for position, arg in enumerate(resolved.args):
        read = _READERS.get((node.function, position))
        if read is None or not isinstance(arg, Const) or type(arg.value) is not str:
            continue
        try:
            read(arg.value)
        except CelFailure as error:
            raise error_at(text, arg.at, f"invalid {node.function} argument: {error}") from None


def _check_format(text: str, node: Call, resolved: Resolved, checked: Checked) -> None:
    """Check the clauses of a constant format string against the types of a literal list."""
    pattern, values = resolved.args
    if not isinstance(pattern, Const) or not isinstance(values, ListLiteral) or values.optional:
        return
    try:
        verbs = [verb for _, verb, _ in clauses(pattern.value) if verb]
    except CelFailure as error:
        raise error_at(text, node.at, str(error)) from None
    wanted, count = len(verbs), len(values.items)
    if wanted > count:
        raise error_at(text, node.at, f"index {count} out of range")
    for verb, item in zip(verbs, values.items, strict=False):
        found = checked.types[item].name
        if found not in TAKEN[verb] and found != "dyn":
            raise error_at(text, item.at, f"error during formatting: {CLAUSES[verb]}, was given {found}")
    if count > wanted:
        reason = f"too many arguments supplied to string.format (expected {wanted}, got {count})"
        raise error_at(text, node.at, reason)


def _check_list(text: str, node: ListLiteral, checked: Checked) -> None:
    expected: Type | None = None
    for index, item in enumerate(node.items):
        found = _opened(checked.types[item]) if index in node.optional else checked.types[item]
        if expected is not None and found != expected:
            raise error_at(text, item.at, f"expected type '{expected}' but found '{found}'")
        expected = found


def _check_map(text: str, node: MapLiteral, checked: Checked) -> None:
    expected: tuple[Type, Type] | None = None
    for key, value, optional in node.entries:
        found = checked.types[key], _opened(checked.types[value]) if optional else checked.types[value]
        if expected is not None:
            for item, one, other in zip((key, value), expected, found, strict=True):
                if one != other:
                    raise error_at(text, item.at, f"expected type '{one}' but found '{other}'")
        expected = expected or found


def _opened(found: Type) -> Type:
    return found.params[0] if found.name == "optional_type" and found.params else found
