"""Checks of constants, which Kubernetes makes at compile time since 1.29.

They find patterns, durations and timestamps that cannot be parsed, and list or map literals of mixed types.
"""

from collections.abc import Callable, Iterable
from typing import Final

from apportion.cel.check.checked import Checked, Resolved
from apportion.cel.library.regexes import visit
from apportion.cel.library.stringformat import CLAUSES, TAKEN, clauses
from apportion.cel.library.times import parse_duration, parse_timestamp
from apportion.cel.syntax.parse import error_at
from apportion.cel.syntax.tree import Call, Const, ListLiteral, MapLiteral, Node, children
from apportion.cel.types import Type, unwrapped
from apportion.cel.values import VISITS, CelFailure, CostExceeded


def _pattern(pattern: str) -> None:
    try:
        visit(pattern, 0)
    except CostExceeded:
        raise CelFailure("the patterns of this selector are too large together") from None


_READERS: Final[dict[tuple[str, int], Callable[[str], object]]] = {
    ("matches", 1): _pattern,
    ("find", 1): _pattern,
    ("findAll", 1): _pattern,
    ("duration", 0): parse_duration,
    ("timestamp", 0): parse_timestamp,
}


def check_literals(text: str, checked: Checked) -> None:
    """Raise SelectorError for the first constant that always fails."""
    # A loop, as chains may be longer than the stack. The flag marks nodes inside a call of `format`, whose argument list
    # may be mixed.
    VISITS.restart()
    waiting = [(checked.root, False)]
    while waiting:
        node, exempt = waiting.pop()
        if isinstance(node, Call):
            _check_call(text, node, checked)
            exempt = exempt or node.function == "format"
        elif not exempt and isinstance(node, ListLiteral):
            rows = [((item, index in node.optional),) for index, item in enumerate(node.items)]
            _check_columns(text, rows, checked)
        elif not exempt and isinstance(node, MapLiteral):
            pairs = [((key, False), (value, optional)) for key, value, optional in node.entries]
            _check_columns(text, pairs, checked)
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


def _check_columns(text: str, rows: Iterable[tuple[tuple[Node, bool], ...]], checked: Checked) -> None:
    """Raise SelectorError unless every column of a literal's (item, is optional) rows has one type."""
    expected: list[Type] = []
    for row in rows:
        types = [checked.types[item] for item, _ in row]
        found = [unwrapped(of)[0] if optional else of for of, (_, optional) in zip(types, row, strict=True)]
        expected = expected or found
        for (item, _), one, other in zip(row, expected, found, strict=True):
            if one != other:
                raise error_at(text, item.at, f"expected type '{one}' but found '{other}'")
