"""The fast form of a selector gives the same answer as the precise form."""

from itertools import product

import pytest
from hypothesis import HealthCheck, event, given, settings

from apportion.cel import Program, Programs, compile_selector
from apportion.dra.capacity import Capacity
from apportion.dra.device import Device
from apportion.dra.quantity import Quantity
from apportion.dra.semver import Semver
from apportion.errors import SelectorError
from tests.cel.evaluators import is_fast, verdict
from tests.cel.randomselectors import GRAMMAR, devices, expressions

PROGRAMS = Programs()


def cached(text: str) -> Program:
    """Return the program out of a cache, where it may share its form with texts before it."""
    program = PROGRAMS.get(text)
    if isinstance(program, SelectorError):
        raise program
    return program


X = 'device.attributes["d"].x'
CONSTANTS = [
    "1",
    "0",
    "true",
    '""',
    '"A100"',
    '"1.0.0"',
    'semver("1.0.0")',
    "1u",
    "1.0",
    "null",
    "[1]",
    '["A100"]',
]
TEMPLATES = [
    *(
        f"{X} {sign} dyn({constant})"
        for sign in ("==", "!=", "<", "<=", ">", ">=", "in")
        for constant in CONSTANTS
    ),
    *(f"{X} {sign} {constant}" for sign in ("==", "!=", "<", "<=", ">", ">=") for constant in CONSTANTS[:6]),
    *(
        f"{constant} {sign} {X}"
        for sign in ("==", "!=", "<", "<=", ">", ">=", "in")
        for constant in CONSTANTS[:6]
    ),
    *(f'semver("1.0.0") {sign} {X} || {X} {sign} semver("1.0.0")' for sign in ("==", "!=")),
    *(f'{X}.{name}(semver("1.0.0"))' for name in ("isGreaterThan", "isLessThan", "includes")),
    *(f'{X}.compareTo(semver("1.0.0")) {sign} 0' for sign in ("==", "!=", "<", "<=", ">", ">=")),
    *(
        f'device.capacity["d"].q.compareTo(quantity("1")) {sign} 0'
        for sign in ("==", "!=", "<", "<=", ">", ">=")
    ),
    *(f'device.capacity["d"].q {sign} quantity("1")' for sign in ("==", "!=")),
    *(f'device.capacity["d"].q.{name}(quantity("1"))' for name in ("isGreaterThan", "isLessThan")),
    *(f"{X}.matches({pattern})" for pattern in GRAMMAR["pattern"]),
    *(f'{X}.{name}("A")' for name in ("startsWith", "endsWith", "contains", "includes")),
    *(
        f"{X} in {items}"
        for items in ("[1, 2]", '["A100", ""]', "[true]", "[]", "[1.0]", '[semver("1.0.0")]')
    ),
    *(
        f"{X}.{macro}(e, e == {constant})"
        for macro in ("exists", "all", "exists_one")
        for constant in CONSTANTS[:5]
    ),
    *(f"{X}.filter(e, e {sign} {X}) == {X}" for sign in ("==", "in")),
    f"{X}.map(e, e) == {X} && {X}.size() > 0",
    f"{X} && true",
    f"!{X} || {X}",
    f"{X} ? {X} : !{X}",
    X,
    f"has({X}) && {X} == 1",
    f'device.attributes["d"].?x.orValue(1) == 1 || {X} == "A100"',
    f"{X}.major() == 1 || {X}.size() == 1 || {X}.lowerAscii() == 'a100'",
    f"cel.bind(v, {X}, v == 1 || v == true)",
]
VALUES = [
    *(True, False, 0, 1, 2, -1, "", "A", "A100", "1.0.0", "xA", "A\n100"),
    *(Semver.parse("1.0.0"), Semver.parse("1.0.0-rc.1"), Semver.parse("2.0.0")),
    *((), (1, 2), ("A100",), (True,), (Semver.parse("1.0.0"),)),
]


@pytest.mark.parametrize("text", TEMPLATES)
def test_both_evaluators_agree_on_every_operator_and_every_type_of_value(text: str) -> None:
    """All pairs, so that every class test of the fast form is needed and checked."""
    for value, amount in product(
        [*VALUES, None], ("1", "1000m", "1Ki", "-1") if "capacity" in text else ("1",)
    ):
        attributes = {} if value is None else {"d/x": value}
        holder = Device(
            driver="d",
            pool="pool",
            name="device",
            attributes=attributes,
            capacity={"q": Capacity(Quantity.parse(amount))},
        )
        assert verdict(cached(text), holder, precisely=False) == verdict(
            cached(text), holder, precisely=True
        ), value


@pytest.mark.slow
@settings(max_examples=1000, suppress_health_check=[HealthCheck.too_slow])
@given(expressions(), devices)
def test_both_evaluators_agree_on_every_selector_and_device(text: str, device: Device) -> None:
    """Well typed or not, with absorbed errors or without: one answer, also in a batch."""
    try:
        program = compile_selector(text)
    except SelectorError:
        event("does not compile")
        return
    event("has a fast form" if is_fast(program) else "has no fast form")
    exact = verdict(cached(text), device, precisely=True)
    event(f"answers {exact}" if isinstance(exact, bool) else "fails")
    assert verdict(cached(text), device, precisely=False) == exact
    (batched,) = program.matches([device])
    assert (str(batched) if isinstance(batched, SelectorError) else batched) == exact


@pytest.mark.slow
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow])
@given(expressions(), devices, devices)
def test_a_program_gives_the_same_answer_to_devices_that_agree_on_what_it_reads(
    text: str, one: Device, other: Device
) -> None:
    """A cache of results may use what `reads` names as its key."""
    try:
        program = compile_selector(text)
    except SelectorError:
        return
    if program.reads is None:
        return
    wanted = {name for kind, name in program.reads if kind == "attribute"}
    held = {name for kind, name in program.reads if kind == "capacity"}
    twin = Device(
        driver=one.driver,
        pool="elsewhere",
        name="twin",
        attributes={
            **{name: value for name, value in other.attributes.items() if name not in wanted},
            **{name: value for name, value in one.attributes.items() if name in wanted},
        },
        capacity={
            **{name: value for name, value in other.capacity.items() if "/" in name and name not in held},
            **{name: value for name, value in one.capacity.items() if "/" not in name or name in held},
        },
        shareable=one.shareable,
    )
    assert verdict(cached(text), one, precisely=False) == verdict(cached(text), twin, precisely=False)
