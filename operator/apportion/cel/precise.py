"""The precise evaluator: closures with CEL's exact semantics, and the reference implementation's cost.

In: a checked tree. Out: a function of one device's value that returns a CEL value. It raises CelFailure for an
error value and CostExceeded when the budget is spent. `&&` and `||` forgive an operand's error if another
operand decides; `cel.bind` is lazy; a missing key is an error and no match is not.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from apportion.cel.check import Checked, Resolved
from apportion.cel.equality import contains, equal, unequal
from apportion.cel.folds import make_fold
from apportion.cel.functions import Overload
from apportion.cel.library.standard import find, find_optional, has
from apportion.cel.literalcheck import children
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
)
from apportion.cel.values import (
    COST_LIMIT,
    NONE,
    CelFailure,
    CostExceeded,
    Optional,
    Value,
    key_of,
    name_of,
    no_overload,
)
from apportion.dra.semver import Semver

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
            resolved = self._checked.calls.get(at)
            if resolved is not None:
                waiting.extend((part, False) for part in resolved.args)
            elif isinstance(at, Macro):
                waiting.append((at.source, False))
            elif at not in self._checked.constants:
                waiting.extend((part, False) for part in children(at))
        return self._made[node]

    def _make(self, node: Node) -> Closure:
        match node:
            case Const():
                return _constant(node.value)
            case Ident():
                return self._ident(node)
            case Select():
                return self._select(node)
            case Call():
                return self._call(node)
            case Logic():
                return _logic(tuple(map(self.make, node.args)), stop=not node.conjunction)
            case Repeated():
                return self._repeated(node)
            case Conditional():
                return _conditional(self.make(node.condition), self.make(node.yes), self.make(node.no))
            case ListLiteral():
                return self._list(node)
            case MapLiteral():
                return self._map(node)
            case Macro():
                return self._macro(node)

    def _ident(self, node: Ident) -> Closure:
        constant = self._checked.constants.get(node)
        if constant is not None:
            return _constant(constant)
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
        constant = self._checked.constants.get(node)
        if constant is not None:
            return _constant(constant)
        operand, field = self._attribute(node.operand), node.field
        if node.test:

            def test(run: Run) -> Value:
                found = has(operand(run), field)
                run.cost -= 1
                return found

            return test
        look = find_optional if node.optional else field_of

        def select(run: Run) -> Value:
            found = operand(run)
            run.cost += 1
            return look(found, field)

        return select

    def _attribute(self, node: Node) -> Closure:
        """Make the operand of a look-up; a computed one costs a unit more, as a relative attribute."""
        operand = self.make(node)
        if isinstance(node, Ident | Select) or (
            isinstance(node, Call) and node.function in ("_[_]", "_[?_]")
        ):
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
                known = self._constant_list(node.args[1])
                if known is not None:
                    return _in_constants(self.make(node.args[0]), known)
            case "or" | "orValue" if node.target is not None:
                return _or(self.make(node.target), self.make(node.args[0]), unwrap=node.function == "orValue")
        args = tuple(map(self.make, resolved.args))
        if node.function in ("_==_", "_!=_"):
            return _equality(args[0], args[1], equal if node.function == "_==_" else unequal, resolved)
        return _strict(args, resolved)

    def _index(self, node: Call) -> Closure:
        operand, key = self._attribute(node.args[0]), self.make(node.args[1])
        look = find if node.function == "_[_]" else find_optional

        def index(run: Run) -> Value:
            container = operand(run)
            found = key(run)
            run.cost += 1
            return look(container, found)

        return index

    def _repeated(self, node: Repeated) -> Closure:
        operand, times = self.make(node.operand), node.times
        if node.operator == "!":
            odd = times % 2 == 1

            def negation(run: Run) -> Value:
                found = operand(run)
                run.cost += times
                if type(found) is not bool:
                    raise no_overload()
                return found is not odd

            return negation
        dispatch = self._checked.calls[node].dispatch

        def minus(run: Run) -> Value:
            found = dispatch(operand(run))
            run.cost += times
            return found if times % 2 else dispatch(found)

        return minus

    def _constant_list(self, node: Node) -> tuple[Value, ...] | None:
        """Return the value of a list literal whose items are all constants."""
        if not isinstance(node, ListLiteral) or node.optional:
            return None
        items = []
        for item in node.items:
            if isinstance(item, Const):
                items.append(item.value)
                continue
            inner = self._constant_list(item)
            if inner is None:
                return None
            items.append(inner)
        return tuple(items)

    def _list(self, node: ListLiteral) -> Closure:
        known = self._constant_list(node)
        if known is not None:
            return _constant(known)
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
        constant = all(isinstance(key, Const) and isinstance(value, Const) for key, value, _ in node.entries)
        cost = 0 if constant else _MAP_COST

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
            run.cost += cost
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
            return _bind(source, bodies[0], first)
        if node.kind in ("opt_map", "opt_flat_map"):
            return _opt_map(source, bodies[0], first, flat=node.kind == "opt_flat_map")
        constant = isinstance(node.bodies[-1], Const)
        return make_fold(node.kind, source, first, len(node.names), bodies, constant=constant)


class Lazy:
    """The value of a `cel.bind` variable: evaluated when first used, then kept, error or not."""

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


def insert(into: dict[Value, Value], key: Value, value: Value) -> None:
    """Add an entry to a map under construction; raises CelFailure for a bad or repeated key."""
    if type(key) not in (bool, int, str) and name_of(key) != "uint":
        raise CelFailure(f"unsupported key type: {name_of(key)}")
    name = key_of(key)
    if name in into:
        raise CelFailure("insert failed: key already exists")
    into[name] = value


def field_of(container: Value, name: str) -> Value:
    """Return `container.name`; raises CelFailure when there is none."""
    if type(container) is dict:
        try:
            return container[name]
        except KeyError:
            raise CelFailure(f"no such key: {name[:64]}") from None
    if type(container) is tuple:
        raise no_overload()
    return find(container, name)


def _constant(value: Value) -> Closure:
    return lambda _: value


def _logic(args: tuple[Closure, ...], *, stop: bool) -> Closure:
    """Evaluate until an operand equals `stop`; only then are errors of the others forgotten."""

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


def _conditional(condition: Closure, yes: Closure, no: Closure) -> Closure:
    def conditional(run: Run) -> Value:
        found = condition(run)
        if found is True:
            return yes(run)
        if found is False:
            return no(run)
        raise no_overload()

    return conditional


def _equality(
    left: Closure, right: Closure, test: Callable[[Value, Value], bool], resolved: Resolved
) -> Closure:
    cost = resolved.dispatch.overloads[0].cost

    def equality(run: Run) -> Value:
        one, other = left(run), right(run)
        if cost is not None:
            run.cost += cost((one, other), None)
        return test(one, other)

    return equality


def _strict(args: tuple[Closure, ...], resolved: Resolved) -> Closure:
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


def _in_constants(needle: Closure, known: tuple[Value, ...]) -> Closure:
    if not known:
        return _constant(value=False)
    test, cost = member_of(known), 0 if _hashed(known) else len(known)

    def member(run: Run) -> Value:
        found = needle(run)
        run.cost += cost
        return test(found)

    return member


def member_of(known: tuple[Value, ...]) -> Callable[[Value], bool]:
    """Return the test of `x in [...]` for a list of constants."""
    hashed = _hashed(known)

    def member(found: Value) -> bool:
        if hashed and type(found) in (Semver, bytes):
            # The reference implementation hashes the needle here, and these two cannot be hashed.
            raise CelFailure(f"hash of unhashable type {name_of(found)}")
        return contains(found, known)

    return member


def _hashed(known: tuple[Value, ...]) -> bool:
    return all(type(item) in (bool, int, float, str) or name_of(item) == "uint" for item in known)


def _or(held: Closure, other: Closure, *, unwrap: bool) -> Closure:
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


def _bind(init: Closure, body: Closure, slot: int) -> Closure:
    def bind(run: Run) -> Value:
        run.slots[slot] = Lazy(init)
        return body(run)

    return bind


def _opt_map(held: Closure, body: Closure, slot: int, *, flat: bool) -> Closure:
    def opt_map(run: Run) -> Value:
        found = held(run)
        if type(found) is not Optional:
            raise no_overload()
        run.cost += 2
        if not found.present:
            return NONE
        run.slots[slot] = found.value
        made = body(run)
        if not flat:
            return Optional(made)
        if type(made) is not Optional:
            raise no_overload()
        return made

    return opt_map
