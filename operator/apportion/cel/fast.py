"""The fast evaluator: a selector as one Python expression.

In: a checked tree. Out: a function of a Device that returns True or False, or raises anything at all. It may
raise wherever CEL does, and wherever it does not know; the precise form then decides. That is exact: when
left-to-right evaluation reaches an answer without an error, absorbing errors would give the same answer.

No text of the user reaches Python source: constants do as their `repr`, names never do.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, cast

from apportion.cel.bound import worst_cost
from apportion.cel.checked import Checked
from apportion.cel.piece import Unsupported
from apportion.cel.source import Writer
from apportion.cel.sourcecalls import CALLS
from apportion.cel.syntax import Call, Const, Node, children
from apportion.cel.values import COST_LIMIT
from apportion.dra.device import Device

Fast: TypeAlias = Callable[[Device], bool]


class Quick(NamedTuple):
    """A fast form, and which of the constants in it stand apart."""

    match: Fast
    compared: Mapping[int, str]
    """String literals that are only compared with what is none: place in the text -> name in the source."""

    def saying(self, values: Mapping[int, str]) -> "Quick":
        """Return the form of the selector that has other literals there, of equal length, by place."""
        made = cast("FunctionType", self.match)
        names = made.__globals__ | {self.compared[at]: value for at, value in values.items()}
        return Quick(FunctionType(made.__code__, names), self.compared)


def fast(checked: Checked) -> Quick | None:
    """Return the fast form of a checked selector, None when it has none."""
    try:
        if worst_cost(checked) > COST_LIMIT:
            return None
        compared = _compared(checked)
        writer = Writer(checked, CALLS, compared)
        body = writer.boolean(checked.root)
        source = f"def match(d):\n{writer.prologue()}    return {body}\n"
        names: dict[str, Any] = writer.names
        exec(compile(source, "<selector>", "exec"), names)  # noqa: S102 - our own names and reprs of constants only
    except (Unsupported, SyntaxError, RecursionError, MemoryError, ValueError):
        return None
    return Quick(names["match"], {node.at: name for node, name in writer.kept.items()})


def _compared(checked: Checked) -> frozenset[Const]:
    """Return the string literals whose text decides nothing before a device is seen."""
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
