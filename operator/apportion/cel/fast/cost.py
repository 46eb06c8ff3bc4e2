"""An upper bound of what evaluating a selector costs on a device that keeps the API's limits.

The fast form does not count costs, so a selector gets one only when this bound is within the cost limit.
"""

from typing import Final, NamedTuple

from apportion.cel.check.checked import Checked, Resolved
from apportion.cel.evaluate.device import LONGEST_LIST, LONGEST_TEXT
from apportion.cel.library.regexes import is_large
from apportion.cel.syntax.tree import Ident, ListLiteral, Macro, Node, Select, children
from apportion.cel.values import COST_LIMIT, Value

_ATTRIBUTE: Final = (LONGEST_TEXT, LONGEST_LIST * LONGEST_TEXT)
"""Largest size and weight of a value that a device holds; weight counts everything inside."""
_REGEXES: Final = frozenset({"matches", "find", "findAll"})
_SQUARE: Final = frozenset(
    {
        *_REGEXES,
        "contains",
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


class _Price(NamedTuple):
    """What a node costs, and what its value is like, at most."""

    cost: int
    size: int
    """Characters or items."""
    weight: int
    """Everything inside."""
    item: int
    """Size of the largest value inside."""


_UNKNOWN: Final = _Price(0, LONGEST_TEXT, _ATTRIBUTE[1], LONGEST_TEXT)
"""Any value that a device holds."""


def worst_cost(checked: Checked) -> int:
    """Return an upper bound of the cost units of one evaluation."""
    return _Bound(checked).price(checked.root).cost


class _Bound:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._bound: dict[str, _Price] = {}
        """What variables in scope hold."""

    def price(self, node: Node) -> _Price:
        """Return the price of a node."""
        if node in self._checked.constants:
            return _weigh(self._checked.constants[node])
        if isinstance(node, Macro):
            return self._loop(node)
        if isinstance(node, Ident):
            return self._bound.get(node.name, _UNKNOWN)._replace(cost=2)
        resolved = self._checked.calls.get(node)
        parts = [self.price(child) for child in (resolved.args if resolved else children(node))]
        total = 2 + sum(part.cost for part in parts)
        size = sum(part.size for part in parts)
        weight = sum(part.weight for part in parts) + len(parts)
        item = max([part.item for part in parts], default=0)
        if not isinstance(node, Select) and (resolved is None or not _is_look_up(resolved)):
            item = max([item, *[part.size for part in parts]])
        if isinstance(node, ListLiteral):
            return _Price(total, len(parts), weight, item)
        found = self._checked.types[node]
        if resolved is not None:
            overloads = resolved.dispatch.overloads
            name = overloads[0].function
            if any(one.grows for one in overloads):
                # Its result may be of any size, and so may all that is done with that cost.
                total += COST_LIMIT
            elif name in _REGEXES and _is_large(resolved, self._checked):
                # Only the precise form may run it: that counts its work each time.
                total += COST_LIMIT
            elif name in _SQUARE:
                product = 1
                for part in parts:
                    product *= 1 + part.size
                total += 2 * product + (product if len(parts) > 1 else product * product)
            else:
                total += _linear(name, parts, size, weight)
        if found.name in _SMALL:
            return _Price(total, 1, 1, 1)
        return _Price(
            total, max(size, item, _UNKNOWN.size), max(weight, _UNKNOWN.weight), max(item, _UNKNOWN.item)
        )

    def _loop(self, node: Macro) -> _Price:
        source = self.price(node.source)
        extra = _TEST if node.kind in ("all", "exists", "exists_one") else _LOOP
        once = node.kind in ("bind", "opt_map", "opt_flat_map")
        rounds = 1 if once else source.size
        held = source if once else _Price(0, source.item, source.weight, source.item)
        outer = self._bound
        self._bound = {**outer, **dict.fromkeys(node.names, held)}
        bodies = [self.price(body) for body in node.bodies]
        self._bound = outer
        inside = sum(body.cost for body in bodies) + extra
        weight = max(source.weight, rounds * sum(body.weight for body in bodies))
        return _Price(
            source.cost + rounds * inside + _LOOP,
            max(source.size, bodies[-1].size),
            weight,
            max(source.item, bodies[-1].size, bodies[-1].item),
        )


def _is_large(resolved: Resolved, checked: Checked) -> bool:
    pattern = checked.constants.get(resolved.args[1])
    return type(pattern) is str and is_large(pattern)


def _is_look_up(resolved: Resolved) -> bool:
    return resolved.dispatch.overloads[0].function in ("_[_]", "_[?_]")


def _linear(name: str, parts: list[_Price], size: int, weight: int) -> int:
    if name in ("_==_", "_!=_"):
        return 1 + min(part.size for part in parts) // 10
    if name in _READS:
        return 1 + size // 5
    return 12 + 2 * (weight if name in _VISITS else size)


def _weigh(value: Value) -> _Price:
    if type(value) is tuple:
        parts = [_weigh(item) for item in value]
    elif type(value) is dict:
        parts = [_weigh(each) for entry in value.items() for each in entry]
    else:
        size = len(value) if type(value) in (str, bytes) else 1
        return _Price(0, size, size, size)
    weight = len(value) + sum(part.weight for part in parts)
    return _Price(0, len(value), weight, max([max(part.size, part.item) for part in parts], default=0))
