"""Optional values (cel-go `cel.OptionalTypes`)."""

from apportion.cel.library.functions import declare
from apportion.cel.values import NONE, CelFailure, Duration, Optional, Timestamp, Uint, Value, no_overload


def _value(held: Optional) -> Value:
    if not held.present:
        raise CelFailure("optional.none() dereference")
    return held.value


def _is_zero(value: Value) -> bool:
    if value is None:
        return True
    if type(value) in (Timestamp, Duration):
        return bool(value.nanos == 0)
    if type(value) is Optional:
        return not value.present
    return type(value) in (bool, int, Uint, float, str, bytes, tuple, dict) and not value


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _first(items: tuple[Value, ...]) -> Optional:
    return Optional(items[0]) if items else NONE


def _last(items: tuple[Value, ...]) -> Optional:
    return Optional(items[-1]) if items else NONE


def _unwrap(items: tuple[Value, ...]) -> tuple[Value, ...]:
    if any(type(item) is not Optional for item in items):
        raise no_overload()
    return tuple(item.value for item in items if item.present)


OVERLOADS = (
    declare("optional.of(V) -> optional(V)", Optional),
    declare("optional.ofNonZeroValue(V) -> optional(V)", _of_non_zero),
    declare("optional.none() -> optional(V)", lambda: NONE),
    declare("optional(V) value() -> V", _value),
    declare("optional(V) hasValue() -> bool", lambda held: held.present),
    declare("optional.unwrap(list(optional(V))) -> list(V)", _unwrap),
    declare("list(optional(V)) unwrapOpt() -> list(V)", _unwrap),
    declare("list(V) first() -> optional(V)", _first),
    declare("list(V) last() -> optional(V)", _last),
    # The evaluators treat `or` and `orValue` themselves, being lazy; these serve the checker and dyn receivers.
    declare(
        "optional(V) or(optional(V)) -> optional(V)", lambda held, other: held if held.present else other
    ),
    declare("optional(V) orValue(V) -> V", lambda held, other: held.value if held.present else other),
)
