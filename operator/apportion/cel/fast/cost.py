"""An upper bound of what evaluating a selector costs on a device that keeps the API's limits.

The fast form does not count costs, so a selector gets one only when this bound is within the cost limit.
"""

from typing import Final

from apportion.cel.check.checked import Checked
from apportion.cel.evaluate.device import LONGEST_LIST, LONGEST_TEXT
from apportion.cel.syntax.tree import ListLiteral, Macro, Node, children
from apportion.cel.types import Type
from apportion.cel.values import Value

_ATTRIBUTE: Final = (LONGEST_TEXT, LONGEST_LIST * LONGEST_TEXT)
"""Largest size and weight of a value that a device holds; weight counts everything inside."""
_SQUARE: Final = frozenset(
    {
        "contains",
        "matches",
        "find",
        "findAll",
        "distinct",
        "sort",
        "sets.contains",
        "sets.equivalent",
        "sets.intersects",
    }
)
_VISITS: Final = frozenset({"isSorted", "sum", "min", "max", "indexOf", "lastIndexOf", "includes"})
_SMALL: Final = frozenset({"bool", "int", "uint", "double", "timestamp", "duration"})
_READS: Final = frozenset(
    {
        "_<_",
        "_<=_",
        "_>_",
        "_>=_",
        "startsWith",
        "endsWith",
        "lowerAscii",
        "upperAscii",
        "trim",
        "substring",
        "split",
    }
    | {"quantity", "isQuantity", "semver", "isSemver", "_+_"}
)
"""Functions that pass over their arguments at a tenth of a unit a character, at most twice."""
_TEST: Final = 5
_LOOP: Final = 20
"""Most that one round of a comprehension costs in addition to its body."""


def worst_cost(checked: Checked) -> int:
    """Return an upper bound of the cost units of one evaluation."""
    return _Bound(checked).cost(checked.root)[0]


class _Bound:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked

    def cost(self, node: Node) -> tuple[int, int, int]:
        """Return (cost, size, weight)."""
        if node in self._checked.constants:
            return 0, *_weigh(self._checked.constants[node])
        resolved = self._checked.calls.get(node)
        parts = [self.cost(child) for child in (resolved.args if resolved else children(node))]
        if isinstance(node, Macro):
            return self._loop(node, parts)
        total = 2 + sum(part[0] for part in parts)
        size = sum(part[1] for part in parts)
        weight = sum(part[2] for part in parts) + len(parts)
        if isinstance(node, ListLiteral):
            return total, len(parts), weight
        found = self._checked.types[node]
        if resolved is not None:
            name = resolved.dispatch.overloads[0].function
            if name in _SQUARE:
                product = 1
                for part in parts:
                    product *= 1 + part[1]
                total += 2 * product + (product if len(parts) > 1 else product * product)
            else:
                total += _linear(name, parts, size, weight)
        return total, *self._result(found, size, weight)

    @staticmethod
    def _result(found: Type, size: int, weight: int) -> tuple[int, int]:
        if found.name in _SMALL:
            return 1, 1
        return max(size, _ATTRIBUTE[0]), max(weight, _ATTRIBUTE[1])

    def _loop(self, node: Macro, parts: list[tuple[int, int, int]]) -> tuple[int, int, int]:
        source, *bodies = parts
        extra = _TEST if node.kind in ("all", "exists", "exists_one") else _LOOP
        rounds = 1 if node.kind in ("bind", "opt_map", "opt_flat_map") else source[1]
        inside = sum(body[0] for body in bodies) + extra
        weight = max(source[2], rounds * sum(body[2] for body in bodies))
        return source[0] + rounds * inside + _LOOP, max(source[1], bodies[-1][1]), weight


def _linear(name: str, parts: list[tuple[int, int, int]], size: int, weight: int) -> int:
    if name in ("_==_", "_!=_"):
        return 1 + min(part[1] for part in parts) // 10
    if name in _READS:
        return 1 + size // 5
    return 12 + 2 * (weight if name in _VISITS else size)


def _weigh(value: Value) -> tuple[int, int]:
    if type(value) is tuple:
        return len(value), sum(_weigh(item)[1] for item in value) + len(value)
    if type(value) is dict:
        return len(value), sum(_weigh(key)[1] + _weigh(item)[1] for key, item in value.items()) + len(value)
    size = len(value) if type(value) in (str, bytes) else 1
    return size, size
