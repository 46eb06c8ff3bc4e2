"""The fast evaluator: a selector as one Python expression.

In: a checked tree. Out: a function of a Device that returns True or False, or raises anything at all. It may
raise wherever CEL does, and wherever it does not know; the precise form then decides. That is exact: when
left-to-right evaluation reaches an answer without an error, absorbing errors would give the same answer.

No text of the user reaches Python source: constants do as their `repr`, names never do.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from apportion.cel.bound import worst_cost
from apportion.cel.checked import Checked
from apportion.cel.piece import Unsupported
from apportion.cel.source import Writer
from apportion.cel.sourcecalls import CALLS
from apportion.cel.values import COST_LIMIT
from apportion.dra.device import Device

Fast: TypeAlias = Callable[[Device], bool]


def fast(checked: Checked) -> Fast | None:
    """Return the fast form of a checked selector, None when it has none."""
    try:
        if worst_cost(checked) > COST_LIMIT:
            return None
        writer = Writer(checked, CALLS)
        body = writer.boolean(checked.root)
        source = f"def match(d):\n{writer.prologue()}    return {body}\n"
        names: dict[str, Any] = writer.names
        exec(compile(source, "<selector>", "exec"), names)  # noqa: S102 - our own names and reprs of constants only
    except (Unsupported, SyntaxError, RecursionError, MemoryError, ValueError):
        return None
    match: Fast = names["match"]
    return match
