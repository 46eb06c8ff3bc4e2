"""The precise evaluator: closures with CEL's exact semantics and the reference implementation's costs.

In: a checked tree. Out: a function of one device's CEL value. It returns a CEL value, and
raises CelFailure for an error value and CostExceeded above the cost limit; what it spent
can be read either way. A missing key is an error, which is not the same as no match.
"""

from collections.abc import Callable, Iterable
from typing import Any

from apportion.cel.check.checked import Checked
from apportion.cel.evaluate.closures import (
    Closure,
    Lazy,
    Run,
    bind,
    conditional,
    constant_of,
    either,
    equality,
    in_constants,
    list_of,
    logic,
    map_of,
    negation,
    opt_map,
    strict,
)
from apportion.cel.evaluate.comprehensions import comprehension
from apportion.cel.library.equality import equal, unequal
from apportion.cel.library.lookup import find, find_field, find_optional, has
from apportion.cel.syntax import tree
from apportion.cel.syntax.tree import Node, children, inside_out
from apportion.cel.values import COST_LIMIT, VISITS, CostExceeded, Optional, Value


class Precise:
    """A compiled tree: a function of a device's value."""

    __slots__ = ("_evaluate", "_slots")

    def __init__(self, evaluate: Closure, slots: int) -> None:
        self._evaluate = evaluate
        self._slots = slots

    def start(self, device: dict[str, Value]) -> Run:
        """Return the state of an evaluation that has not begun; its cost tells afterwards what was spent."""
        VISITS.restart()
        return Run(device, self._slots)

    def finish(self, run: Run) -> Value:
        """Evaluate; raises CelFailure or CostExceeded."""
        found = self._evaluate(run)
        if run.cost > COST_LIMIT:
            raise CostExceeded
        return found


def precise(checked: Checked) -> Precise:
    """Compile a checked tree."""
    return Precise(*closure_of(checked))


def closure_of(checked: Checked) -> tuple[Closure, int]:
    """Compile a checked tree to a closure; the number says how many slots its runs need."""
    maker = _Maker(checked)
    return maker.make(checked.root), maker.slots


class _Maker:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._scope: dict[str, int] = {}
        self._made: dict[Node, Closure] = {}
        self.slots = 0

    def make(self, node: Node) -> Closure:
        """Compile a node, after its parts."""
        return inside_out(node, self._made, self._parts, self._make)

    def _parts(self, node: Node) -> Iterable[Node]:
        """Return the parts that need no variables of a macro."""
        if node in self._checked.constants:
            return ()
        resolved = self._checked.calls.get(node)
        if resolved is not None:
            return resolved.args
        return (node.source,) if isinstance(node, tree.Macro) else children(node)

    def _make(self, node: Node) -> Closure:
        if node in self._checked.constants:
            return constant_of(self._checked.constants[node])
        match node:
            case tree.Const():
                return constant_of(node.value)
            case tree.Ident():
                return self._ident(node)
            case tree.Select():
                return self._select(node)
            case tree.Call():
                return self._call(node)
            case tree.Logic():
                return logic(tuple(map(self.make, node.args)), stop=not node.conjunction)
            case tree.Repeated():
                return self._repeated(node)
            case tree.Conditional():
                yes, no = (_unpaid(self.make(part), part) for part in (node.yes, node.no))
                return conditional(self.make(node.condition), yes, no)
            case tree.ListLiteral():
                return list_of(tuple(map(self.make, node.items)), node.optional)
            case tree.MapLiteral():
                return map_of(
                    tuple(
                        (self.make(key), self.make(value), optional) for key, value, optional in node.entries
                    )
                )
            case tree.Macro():
                return self._macro(node)

    def _ident(self, node: tree.Ident) -> Closure:
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

    def _select(self, node: tree.Select) -> Closure:
        operand, field = self._attribute(node.operand), node.field
        if node.test:
            return lambda run: has(operand(run), field)
        return _look(operand, constant_of(field), find_optional if node.optional else find_field)

    def _attribute(self, node: Node) -> Closure:
        """Make the operand of a look-up; a computed operand costs a unit more (cel-go: a relative attribute)."""
        operand = self.make(node)
        if _is_path(node):
            return operand

        def relative(run: Run) -> Value:
            found = operand(run)
            run.cost += 1
            return found

        return relative

    def _call(self, node: tree.Call) -> Closure:
        resolved = self._checked.calls[node]
        match node.function:
            case "_[_]" | "_[?_]":
                return self._index(node)
            case "@in":
                known = self._checked.constants.get(node.args[1])
                if isinstance(node.args[1], tree.ListLiteral) and type(known) is tuple:
                    return in_constants(self.make(node.args[0]), known)
            case "or" | "orValue" if node.target is not None:
                return either(
                    self.make(node.target), self.make(node.args[0]), unwrap=node.function == "orValue"
                )
        args = tuple(map(self.make, resolved.args))
        if node.function in ("_==_", "_!=_"):
            return equality(args[0], args[1], equal if node.function == "_==_" else unequal, resolved)
        return strict(args, resolved)

    def _index(self, node: tree.Call) -> Closure:
        operand, key = self._attribute(node.args[0]), self.make(node.args[1])
        return _look(operand, key, find if node.function == "_[_]" else find_optional)

    def _repeated(self, node: tree.Repeated) -> Closure:
        operand = self.make(node.operand)
        if node.times % 2 == 0:
            return operand
        if node.operator == "!":
            return negation(operand)
        dispatch = self._checked.calls[node].dispatch

        def minus(run: Run) -> Value:
            found = dispatch(operand(run))
            run.cost += 1
            return found

        return minus

    def _macro(self, node: tree.Macro) -> Closure:
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
        return comprehension(node.kind, source, first, len(node.names), bodies, constant=constant)


def _is_path(node: Node) -> bool:
    return isinstance(node, tree.Ident | tree.Select) or (
        isinstance(node, tree.Call) and node.function in ("_[_]", "_[?_]")
    )


def _unpaid(branch: Closure, node: Node) -> Closure:
    """Make a branch of `?:`; the reference implementation does not charge the last step of a path here."""
    if not _is_path(node):
        return branch

    def unpaid(run: Run) -> Value:
        found = branch(run)
        run.cost -= 1
        return found

    return unpaid


def _look(operand: Closure, key: Closure, look: Callable[[Value, Any], Value]) -> Closure:
    """Make a look-up; an optional look-up that finds nothing costs nothing."""

    def step(run: Run) -> Value:
        container = operand(run)
        found = look(container, key(run))
        if type(found) is not Optional or found.present:
            run.cost += 1
        return found

    return step
