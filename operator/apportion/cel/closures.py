"""Closures of CEL's operators: what the precise evaluator puts together.

In: the closures of the parts. Out: one closure. All follow CEL: `&&` and `||` forgive errors, `?:`, `or`,
`orValue` and `cel.bind` are lazy, every other call evaluates all its arguments first.
"""

from collections.abc import Callable

from apportion.cel.checked import Resolved
from apportion.cel.equality import contains
from apportion.cel.functions import Overload
from apportion.cel.library.standard import find
from apportion.cel.run import Closure, Run
from apportion.cel.values import NONE, CelFailure, Optional, Value, key_of, name_of, no_overload
from apportion.dra.semver import Semver


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


def constant_of(value: Value) -> Closure:
    """Return the closure of a constant."""
    return lambda _: value


def logic(args: tuple[Closure, ...], *, stop: bool) -> Closure:
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
    """Evaluate all arguments, then run the form that fits their classes."""
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


def either(held: Closure, other: Closure, *, unwrap: bool) -> Closure:
    """Return what an optional holds (`or`: the optional itself), else evaluate the other."""

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
    """Evaluate the body with a variable that is evaluated when first used."""

    def bind(run: Run) -> Value:
        run.slots[slot] = Lazy(init)
        return body(run)

    return bind


def opt_map(held: Closure, body: Closure, slot: int, *, flat: bool) -> Closure:
    """Apply the body to what an optional holds, if it holds something."""

    def opt_map(run: Run) -> Value:
        before = run.cost
        found = held(run)
        if type(found) is not Optional:
            raise no_overload()
        paid = run.cost - before
        run.cost += 2
        if not found.present:
            return NONE
        # The macro asks its target twice: whether it holds something, and what.
        run.cost += paid + 1
        run.slots[slot] = found.value
        made = body(run)
        if not flat:
            return Optional(made)
        if type(made) is not Optional:
            raise no_overload()
        return made

    return opt_map
