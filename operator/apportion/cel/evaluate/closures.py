"""What the precise evaluator puts together: one closure for each operator of CEL.

In: the closures of the operands. Out: one closure. `&&` and `||` absorb errors when another operand decides; `?:`, `or`,
`orValue` and `cel.bind` are lazy; every other call evaluates all its arguments first.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from apportion.cel.check.checked import Resolved
from apportion.cel.library.functions import Overload
from apportion.cel.library.lookup import hashed, member_of
from apportion.cel.values import (
    COST_LIMIT,
    NONE,
    CelFailure,
    CostExceeded,
    Optional,
    Value,
    insert,
    name_of,
    no_overload,
)

_LIST_COST: Final = 10
_MAP_COST: Final = 30


class Run:
    """The state of one evaluation: the device, the cost so far, and one slot for each variable that macros bind."""

    __slots__ = ("cost", "device", "slots")

    def __init__(self, device: dict[str, Value], slots: int) -> None:
        self.device = device
        self.cost = 0
        self.slots: list[Value] = [None] * slots

    def spend(self, units: int) -> None:
        """Add to the cost; raises CostExceeded above the limit."""
        self.cost += units
        if self.cost > COST_LIMIT:
            raise CostExceeded


Closure: TypeAlias = Callable[[Run], Value]
"""A compiled node: returns its value in a run; raises CelFailure or CostExceeded."""


class Lazy:
    """The value of a `cel.bind` variable: evaluated on first use, then kept, also when it is an error."""

    __slots__ = ("_failure", "_init", "_value")

    def __init__(self, init: Closure) -> None:
        self._init: Closure | None = init
        self._value: Value = None
        self._failure: CelFailure | None = None

    def __call__(self, run: Run) -> Value:
        """Return the value; raises what the first evaluation raised."""
        if self._init is not None:
            init, self._init = self._init, None
            try:
                self._value = init(run)
            except CelFailure as failure:
                self._failure = failure
        if self._failure is not None:
            raise self._failure
        return self._value


def constant_of(value: Value) -> Closure:
    """Return the closure of a constant."""
    return lambda _: value


def logic(args: tuple[Closure, ...], *, stop: bool) -> Closure:
    """Evaluate until an operand equals `stop`, which absorbs errors of the others."""

    def logic(run: Run) -> Value:
        failure: CelFailure | None = None
        for arg in args:
            try:
                found = arg(run)
                if found is stop:
                    return found
                if type(found) is not bool:
                    raise no_overload()
            except CelFailure as error:
                failure = failure or error
        if failure is not None:
            raise failure
        return not stop

    return logic


def conditional(condition: Closure, yes: Closure, no: Closure) -> Closure:
    """Evaluate the condition, then one branch."""

    def conditional(run: Run) -> Value:
        found = condition(run)
        if found is True:
            return yes(run)
        if found is False:
            return no(run)
        raise no_overload()

    return conditional


def equality(
    left: Closure, right: Closure, test: Callable[[Value, Value], bool], resolved: Resolved
) -> Closure:
    """Evaluate both sides and compare them."""
    cost = resolved.dispatch.overloads[0].cost

    def equality(run: Run) -> Value:
        one, other = left(run), right(run)
        if cost is not None:
            run.cost += cost((one, other), None)
        return test(one, other)

    return equality


def strict(args: tuple[Closure, ...], resolved: Resolved) -> Closure:
    """Evaluate all arguments, then run the overload that fits their classes."""
    find_overload = resolved.dispatch.find
    forms = resolved.dispatch.overloads
    # Upstream prices operators and conversions by form; where the types leave several, the price is one unit.
    flat = len(forms) > 1 and (forms[0].function[0] in "_@-" or forms[0].function in ("bytes", "string"))

    def finish(run: Run, values: tuple[Value, ...], chosen: Overload) -> Value:
        found = chosen.run(*values)
        run.spend(1 if flat or chosen.cost is None else chosen.cost(values, found))
        return found

    if len(args) == 1:
        only = args[0]

        def unary(run: Run) -> Value:
            value = only(run)
            return finish(run, (value,), find_overload((type(value),)))

        return unary
    if len(args) == 2:
        left, right = args

        def binary(run: Run) -> Value:
            one, other = left(run), right(run)
            return finish(run, (one, other), find_overload((type(one), type(other))))

        return binary

    def call(run: Run) -> Value:
        values = tuple([arg(run) for arg in args])
        return finish(run, values, find_overload(tuple(map(type, values))))

    return call


def in_constants(needle: Closure, known: tuple[Value, ...]) -> Closure:
    """Test membership in a list of constants; an empty list does not even evaluate the needle."""
    if not known:
        return constant_of(value=False)
    test, cost = member_of(known), 0 if hashed(known) else len(known)

    def member(run: Run) -> Value:
        found = needle(run)
        run.cost += cost
        return test(found)

    return member


def either(held: Closure, other: Closure, *, unwrap: bool) -> Closure:
    """Return what an optional holds (`or`: the optional itself); evaluate `other` when it is empty."""

    def choose(run: Run) -> Value:
        found = held(run)
        if type(found) is not Optional:
            raise no_overload()
        if found.present:
            return found.value if unwrap else found
        instead = other(run)
        if not unwrap and type(instead) is not Optional:
            raise no_overload()
        return instead

    return choose


def bind(init: Closure, body: Closure, slot: int) -> Closure:
    """Evaluate the body with a variable that is evaluated on first use."""

    def bind(run: Run) -> Value:
        run.slots[slot] = Lazy(init)
        return body(run)

    return bind


def opt_map(held: Closure, body: Closure, slot: int, *, flat: bool) -> Closure:
    """Evaluate the body on what an optional holds; an empty optional stays empty."""

    def opt_map(run: Run) -> Value:
        before = run.cost
        found = held(run)
        if type(found) is not Optional:
            raise no_overload()
        paid = run.cost - before
        run.cost += 2
        if not found.present:
            return NONE
        # Upstream's macro evaluates its target twice: for `hasValue()` and for `value()`.
        run.cost += paid + 1
        run.slots[slot] = found.value
        made = body(run)
        if not flat:
            return Optional(made)
        if type(made) is not Optional:
            raise no_overload()
        return made

    return opt_map


def negation(operand: Closure) -> Closure:
    """Return the opposite of a bool."""

    def negation(run: Run) -> Value:
        found = operand(run)
        run.cost += 1
        if type(found) is not bool:
            raise no_overload()
        return not found

    return negation


def list_of(parts: tuple[Closure, ...], optional: frozenset[int]) -> Closure:
    """Build a list; items at the positions `optional` are left out when they are empty optionals."""

    def build(run: Run) -> Value:
        if not optional:
            found = tuple([part(run) for part in parts])
        else:
            kept = []
            for position, part in enumerate(parts):
                item = part(run)
                if position not in optional:
                    kept.append(item)
                elif _held(item, "list element").present:
                    kept.append(item.value)
            found = tuple(kept)
        run.cost += _LIST_COST
        return found

    return build


def map_of(parts: tuple[tuple[Closure, Closure, bool], ...]) -> Closure:
    """Build a map of (key, value, optional); an optional entry is left out when its value is an empty optional."""

    def build(run: Run) -> Value:
        found: dict[Value, Value] = {}
        for key, value, optional in parts:
            name, item = key(run), value(run)
            if not optional:
                insert(found, name, item)
            elif _held(item, "entry").present:
                insert(found, name, item.value)
        run.cost += _MAP_COST
        return found

    return build


def _held(item: Value, what: str) -> Optional:
    if type(item) is not Optional:
        raise CelFailure(f"cannot initialize optional {what} from non-optional value {name_of(item)}")
    return item
