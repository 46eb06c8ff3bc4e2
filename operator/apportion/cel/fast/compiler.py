"""The fast form of a selector: one Python expression.

In: a checked tree. Out: a function of a Device that returns True or False, or raises any exception. It raises wherever CEL
gives an error, and wherever only the precise form knows the answer; the precise form then decides. That is exact: where
left-to-right evaluation reaches an answer without an error, absorbing errors would give the same answer.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, cast

from apportion.cel.check.checked import Checked
from apportion.cel.fast.calls import CALLS
from apportion.cel.fast.fragments import Unsupported
from apportion.cel.fast.writer import Writer
from apportion.cel.syntax.tree import Call, Const, Node, children
from apportion.cel.values import COST_LIMIT
from apportion.dra.device import Device


class FastForm(NamedTuple):
    """A compiled Python expression, and which of its string literals can be replaced."""

    match: Callable[[Device], bool]
    compared: Mapping[int, str]
    """String literals that `==` or `!=` compares with something else than a literal: offset in the text to global name."""

    def with_literals(self, values: Mapping[int, str]) -> "FastForm":
        """Return the form of the selector that has these literals instead, of equal lengths, by offset."""
        made = cast("FunctionType", self.match)
        names = made.__globals__ | {self.compared[at]: value for at, value in values.items()}
        return FastForm(FunctionType(made.__code__, names), self.compared)


def fast_form(checked: Checked, bound: int) -> FastForm | None:
    """Return the fast form of a checked selector with this bound of its cost, None when it has none."""
    if bound > COST_LIMIT:
        return None
    try:
        compared = _compared(checked)
        writer = Writer(checked, CALLS, compared)
        body = writer.boolean(checked.root)
        source = f"def match(d):\n{writer.prologue()}    return {body}\n"
        names: dict[str, Any] = writer.values
        exec(compile(source, "<selector>", "exec"), names)  # noqa: S102 - our own names and reprs of constants only
    except (Unsupported, SyntaxError, RecursionError, MemoryError, ValueError):
        return None
    return FastForm(names["match"], {node.at: name for node, name in writer.literals.items()})


def _compared(checked: Checked) -> frozenset[Const]:
    """Return the string literals whose text matters only when a device is evaluated."""
    uses: Counter[Const] = Counter()
    free: Counter[Const] = Counter()
    waiting: list[Node] = [checked.root]
    while waiting:
        node = waiting.pop()
        parts: Sequence[Node] = tuple(children(node))
        waiting.extend(parts)
        uses.update([part for part in parts if isinstance(part, Const)])
        if isinstance(node, Call) and node.function in ("_==_", "_!=_"):
            literals = [part for part in parts if isinstance(part, Const)]
            if len(literals) == 1 and type(literals[0].value) is str:
                free.update(literals)
    return frozenset([node for node, count in free.items() if uses[node] == count])
