"""The precise evaluator: closures with CEL's exact semantics, and the reference implementation's cost.

In: a checked tree. Out: a function of one device's value that returns a CEL value. It raises CelFailure for an
error value and CostExceeded when the budget is spent. `&&` and `||` forgive an operand's error if another
operand decides; `cel.bind` is lazy; a missing key is an error and no match is not.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from apportion.cel.checked import Checked
from apportion.cel.closures import (
    Lazy,
    bind,
    conditional,
    constant_of,
    either,
    equality,
    field_of,
    in_constants,
    insert,
    logic,
    opt_map,
    strict,
)
from apportion.cel.equality import equal, unequal
from apportion.cel.folds import make_fold
from apportion.cel.library.standard import find, find_optional, has
from apportion.cel.run import Closure, Run
from apportion.cel.syntax import (
    Call,
    Conditional,
    Const,
    Ident,
    ListLiteral,
    Logic,
    Macro,
    MapLiteral,
    Node,
    Repeated,
    Select,
    children,
)
from apportion.cel.values import (
    COST_LIMIT,
    CelFailure,
    CostExceeded,
    Optional,
    Value,
    name_of,
    no_overload,
)

_LIST_COST: Final = 10
_MAP_COST: Final = 30

Precise: TypeAlias = Callable[[dict[str, Value]], Value]


def precise(checked: Checked) -> Precise:
    """Compile a checked tree to a function of the device's value."""
    maker = _Maker(checked)
    evaluate = maker.make(checked.root)
    slots = maker.slots

    def run(device: dict[str, Value]) -> Value:
        state = Run(device, slots)
        found = evaluate(state)
        if state.cost > COST_LIMIT:
            raise CostExceeded
        return found

    return run


def cost_of(checked: Checked, device: dict[str, Value]) -> int:
    """Return the cost units of one evaluation, for comparison with the reference implementation."""
    maker = _Maker(checked)
    evaluate = maker.make(checked.root)
    state = Run(device, maker.slots)
    evaluate(state)
    return state.cost


class _Maker:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._scope: dict[str, int] = {}
        self._made: dict[Node, Closure] = {}
        self.slots = 0

    def make(self, node: Node) -> Closure:
        """Compile a node; its parts first and without recursion, as the checker does."""
        waiting = [(node, False)]
        while waiting:
            at, ready = waiting.pop()
            if at in self._made:
                continue
            if ready:
                self._made[at] = self._make(at)
                continue
            waiting.append((at, True))
            if at in self._checked.constants:
                continue
            resolved = self._checked.calls.get(at)
            if resolved is not None:
                waiting.extend((part, False) for part in resolved.args)
            elif isinstance(at, Macro):
                waiting.append((at.source, False))
            else:
                waiting.extend((part, False) for part in children(at))
        return self._made[node]

    def _make(self, node: Node) -> Closure:
        if node in self._checked.constants:
            return constant_of(self._checked.constants[node])
        match node:
            case Const():
                return constant_of(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Logic():
                return logic(tuple(map(self.make, node.args)), stop=not node.conjunction)
            case Repeated():
                return self._repeated(node)
            case Conditional():
                yes, no = (_unpaid(self.make(part), part) for part in (node.yes, node.no))
                return conditional(self.make(node.condition), yes, no)
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Macro():
                return self._macro(node)

    def _ident(self, node: Ident) -> Closure:
        slot = self._scope.get(node.name)
        if slot is None:

            def device(run: Run) -> Value:
                run.cost += 1
                return run.device

            return device

        def variable(run: Run) -> Value:
            run.cost += 1
            found = run.slots[slot]
            return found(run) if type(found) is Lazy else found

        return variable

    def _select(self, node: Select) -> Closure:
        operand, field = self._attribute(node.operand), node.field
        if node.test:
            return lambda run: has(operand(run), field)
        return _look(operand, constant_of(field), find_optional if node.optional else field_of)

    def _attribute(self, node: Node) -> Closure:
        """Make the operand of a look-up; a computed one costs a unit more, as a relative attribute."""
        operand = self.make(node)
        if _is_path(node):
            return operand

        def relative(run: Run) -> Value:
            found = operand(run)
            run.cost += 1
            return found

        return relative

    def _call(self, node: Call) -> Closure:
        resolved = self._checked.calls[node]
        match node.function:
            case "_[_]" | "_[?_]":
                return self._index(node)
            case "@in":
                known = self._checked.constants.get(node.args[1])
                if isinstance(node.args[1], ListLiteral) and type(known) is tuple:
                    return in_constants(self.make(node.args[0]), known) if known else constant_of(False)  # noqa: FBT003
            case "or" | "orValue" if node.target is not None:
                return either(
                    self.make(node.target), self.make(node.args[0]), unwrap=node.function == "orValue"
                )
        args = tuple(map(self.make, resolved.args))
        if node.function in ("_==_", "_!=_"):
            return equality(args[0], args[1], equal if node.function == "_==_" else unequal, resolved)
        return strict(args, resolved)

    def _index(self, node: Call) -> Closure:
        operand, key = self._attribute(node.args[0]), self.make(node.args[1])
        return _look(operand, key, find if node.function == "_[_]" else find_optional)

    def _repeated(self, node: Repeated) -> Closure:
        operand = self.make(node.operand)
        if node.times % 2 == 0:
            return operand
        if node.operator == "!":

            def negation(run: Run) -> Value:
                found = operand(run)
                run.cost += 1
                if type(found) is not bool:
                    raise no_overload()
                return not found

            return negation
        dispatch = self._checked.calls[node].dispatch

        def minus(run: Run) -> Value:
            found = dispatch(operand(run))
            run.cost += 1
            return found

        return minus

    def _list(self, node: ListLiteral) -> Closure:
        parts = tuple(map(self.make, node.items))
        optional = node.optional

        def build(run: Run) -> Value:
            if not optional:
                found = tuple([part(run) for part in parts])
            else:
                kept = []
                for position, part in enumerate(parts):
                    item = part(run)
                    if position not in optional:
                        kept.append(item)
                    elif type(item) is not Optional:
                        raise CelFailure(
                            f"cannot initialize optional list element from non-optional value {name_of(item)}"
                        )
                    elif item.present:
                        kept.append(item.value)
                found = tuple(kept)
            run.cost += _LIST_COST
            return found

        return build

    def _map(self, node: MapLiteral) -> Closure:
        parts = tuple((self.make(key), self.make(value), optional) for key, value, optional in node.entries)

        def build(run: Run) -> Value:
            found: dict[Value, Value] = {}
            for key, value, optional in parts:
                name, item = key(run), value(run)
                if optional:
                    if type(item) is not Optional:
                        raise CelFailure(
                            f"cannot initialize optional entry from non-optional value {name_of(item)}"
                        )
                    if not item.present:
                        continue
                    item = item.value
                insert(found, name, item)
            run.cost += _MAP_COST
            return found

        return build

    def _macro(self, node: Macro) -> Closure:
        source = self.make(node.source)
        outer = self._scope
        first = self.slots
        self.slots += len(node.names)
        self._scope = {**outer, **{name: first + i for i, name in enumerate(node.names)}}
        bodies = tuple(map(self.make, node.bodies))
        self._scope = outer
        if node.kind == "bind":
            return bind(source, bodies[0], first)
        if node.kind in ("opt_map", "opt_flat_map"):
            return opt_map(source, bodies[0], first, flat=node.kind == "opt_flat_map")
        constant = node.bodies[-1] in self._checked.constants
        return make_fold(node.kind, source, first, len(node.names), bodies, constant=constant)


def _is_path(node: Node) -> bool:
    return isinstance(node, Ident | Select) or (isinstance(node, Call) and node.function in ("_[_]", "_[?_]"))


def _unpaid(branch: Closure, node: Node) -> Closure:
    """Make a branch of `?:`; one that is a path is resolved with the conditional, which costs nothing itself."""
    if not _is_path(node):
        return branch

    def unpaid(run: Run) -> Value:
        found = branch(run)
        run.cost -= 1
        return found

    return unpaid


def _look(operand: Closure, key: Closure, look: Callable[[Value, Any], Value]) -> Closure:
    """Make a look-up; an optional one that finds nothing is free."""

    def step(run: Run) -> Value:
        container = operand(run)
        found = look(container, key(run))
        if type(found) is not Optional or found.present:
            run.cost += 1
        return found

    return step
