"""Hostile selectors: their text never becomes Python code, and no depth or size ends the process."""

import resource
import time
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apportion.cel import compile_selector
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.cel.devices import GPU, device
from tests.cel.evaluators import is_fast
from tests.cel.randomselectors import quoted

HOSTILE = [
    "__class__",
    "d",
    "FA",
    "t1",
    'x"]) or __import__("os").abort() or ("',
    "a'b",
    "a\nb",
    "{d}",
    "%s",
    "\u2028",
    "\\",
    "\x00",
    ":=",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_only_a_name(name: str) -> None:
    """Domains, names and strings that contain quotes and code are only looked up and compared."""
    holder = Device(
        driver=name, pool="pool", name="device", attributes={f"{name}/{name}": name, "d/x": 1}, capacity={}
    )
    literal = quoted(name)
    for text in (
        f"device.driver == {literal}",
        f"device.attributes[{literal}][{literal}] == {literal}",
        f"{literal} in device.attributes[{literal}] && device.attributes[{literal}][?{literal}].hasValue()",
        f"device.attributes[{literal}].exists(k, k == {literal})",
        f"device.driver.matches({literal}.replace('\\\\', '')) || true",
        f"device.driver in [{literal}, 'x'] && [{literal}].map(d, d)[0] == device.driver",
    ):
        assert compile_selector(text).match(holder) is True


@pytest.mark.slow
@settings(max_examples=300)
@given(st.text(max_size=30))
def test_any_text_as_a_string_is_that_string(value: str) -> None:
    """Any Unicode text in a literal is data."""
    holder = Device(driver=value, pool="pool", name="device", attributes={"d/x": value})
    raw = "".join(f"\\U{ord(char):08x}" for char in value if not 0xD800 <= ord(char) <= 0xDFFF)
    wanted = "".join(char for char in value if not 0xD800 <= ord(char) <= 0xDFFF)
    program = compile_selector(f'device.attributes["d"].x == "{raw}" && device.driver == "{raw}"')
    assert program.match(holder) is (value == wanted)


@pytest.mark.slow
@settings(max_examples=500)
@given(
    st.text(
        alphabet=st.sampled_from(list("device.attributes[]()'\"{}?:&|!=<>+-*/%,`\\ \nabc019rbu\x00é")),
        max_size=60,
    )
)
def test_any_text_compiles_or_is_refused(text: str) -> None:
    """The compiler raises SelectorError only."""
    with suppress(SelectorError):
        compile_selector(text).match(device())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        (" && ".join(["device.driver != 'x'"] * 1700), True),
        (" || ".join(["device.driver == 'x'"] * 1700), False),
        ("!" * 9000 + "true", True),
        ("!" * 9001 + "device.allowMultipleAllocations", True),
        ("-" * 5001 + "1 == -1", True),
        ("+".join(["1"] * 240) + " == 240", True),
        ("(" * 2000 + "true" + ")" * 2000, True),
        ("(" * 240 + "device.driver == 'x'" + " || false)" * 240, False),
        ("[" * 200 + "1" + "]" * 200 + " != []", True),
        ("false ? false : " * 200 + "true", True),
        ("[1].exists(x, " * 40 + "true" + ")" * 40, True),
        ('"' + "x" * 9000 + '".size() == 9000', True),
        ("[" + ",".join(["1"] * 5000) + "].size() == 5000", True),
        (" && ".join(f"(1 < 2) == ({'(' * 9}true{')' * 9})" for _ in range(100)), True),
    ],
    ids=range(14),
)
def test_deep_and_long_selectors_are_evaluated(text: str, verdict: bool) -> None:  # noqa: FBT001
    """Chains, nesting and long literals compile in seconds and give the right answer."""
    start = time.process_time()
    program = compile_selector(text)
    assert program.match(device()) is verdict
    assert time.process_time() - start < 5


@pytest.mark.parametrize(
    "text",
    [
        "+".join(["1"] * 400) + " == 400",
        "[" * 300 + "]" * 300 + " == []",
        "f(" * 300 + ")" * 300,
        "false ? false : " * 300 + "true",
    ],
)
def test_what_upstream_refuses_as_too_deep_is_refused(text: str) -> None:
    """More than 250 levels are a compile error."""
    with pytest.raises(SelectorError, match="recursion limit exceeded"):
        compile_selector(text)


TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(levels: int, inner: str) -> str:
    """Return loops within loops over ten items."""
    for level in reversed(range(levels)):
        inner = f"{TEN}.all(x{level}, {inner})"
    return inner


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        nested(7, "int('1'.find('[0-9]*')) < 100"),
        nested(6, "device.driver != 'x'"),
        "lists.range(100000).all(x, lists.range(1000).all(y, true))",
        "cel.bind(a, lists.range(1000), a.map(x, a.map(y, a)).size() > 0)",
        "'a'" + ".replace('', 'bbbbbbbbbbbbbbbb')" * 60 + ".size() > 0",
        "lists.range(3000).distinct().size() > 0",
        "'%s%s%s%s'.format(['a', 'b', 'c', 'd'])" + ".replace('', 'xxxxxxxxxxxxxxxxxxxx')" * 20 + " == ''",
        "lists.range(1000000).sort().size() == 0",
        "lists.range(1000).map(x, lists.range(1000)).flatten().map(x, x * 2).size() == 0",
    ],
)
def test_the_cost_limit_ends_expensive_selectors(text: str) -> None:
    """The limit is a million cost units, as upstream; time and memory stay small in both evaluators."""
    program = compile_selector(text)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    # Without a fast form both are the same.
    for match in (program.match_precisely, program.match) if is_fast(program) else (program.match,):
        with pytest.raises(SelectorError, match="actual cost limit exceeded"):
            match(device())
    assert time.process_time() - start < 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000


def test_a_selector_within_the_cost_limit_is_answered() -> None:
    """Ten thousand rounds are allowed, and have a fast form."""
    program = compile_selector(nested(4, "device.driver != 'x'"))
    assert is_fast(program)
    assert program.match(device()) is True
    assert program.match_precisely(device()) is True


@pytest.mark.slow
def test_a_device_beyond_the_api_limits_is_counted_exactly() -> None:
    """The fast form assumes the API's limits; a device beyond them is evaluated by the precise form, which counts costs."""
    names = {f"n{number}": {"int": number} for number in range(40)}
    text = nested(3, 'device.attributes["gpu.example.com"].all(k, k != "x")')
    assert compile_selector(text).match(device()) is True
    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        compile_selector(text).match(
            device({**GPU, "attributes": {**names, **{f"m{n}": {"int": n} for n in range(300)}}})
        )


@pytest.mark.slow
def test_error_messages_stay_short_however_large_the_values() -> None:
    """No message contains a whole value, and nesting does not multiply it."""
    clauses = " && ".join(f'device.attributes["d"].a{number} == "x"' for number in range(300))
    with pytest.raises(SelectorError) as caught:
        compile_selector(clauses).match(device())
    assert len(str(caught.value)) < 300
    long = "x" * 5000
    for text in (
        f'int("{long}") == 1',
        f'"a".matches(dyn("({long}"))',
        f'{{"a": 1}}["{long}"] == 1',
        f"quantity('{long}').isInteger()",
    ):
        with pytest.raises(SelectorError) as caught:
            compile_selector(text).match(device())
        assert len(str(caught.value)) < 400


def test_a_pattern_that_would_backtrack_takes_linear_time() -> None:
    """RE2 does not backtrack, and the memo of results is bounded."""
    program = compile_selector('device.attributes["d"].x.matches("^(a+)+$")')
    start = time.process_time()
    for number in range(6000):
        holder = Device(driver="d", pool="p", name="n", attributes={"d/x": "a" * 50 + str(number)})
        assert program.match(holder) is False
    assert time.process_time() - start < 5


PATTERN = 'device.attributes["d"].x.{}'
STEPS = f"[{','.join(map(str, range(200)))}]"


@pytest.mark.parametrize(
    "call",
    [
        "matches('(a?b?c?d?){1000}' + string(i))",
        "matches('\\\\pL{1000}' + string(i))",
        "matches('\\\\pL{20}' + string(i))",
        "find('((((a?){10}){10}){10}|' + string(i) + ')b') == ''",
    ],
)
def test_patterns_whose_programs_are_long_end_at_a_limit(call: str) -> None:
    """A count or a class of Unicode makes RE2's program a thousand times as long as the pattern, by whose length CEL's cost goes."""
    program = compile_selector(f"!{STEPS}.exists(i, {PATTERN.format(call)} && i < 0)")
    holder = Device(driver="d", pool="p", name="n", attributes={"d/x": "abcd" * 16})
    start = time.process_time()
    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        program.match(holder)
    assert time.process_time() - start < 1


def test_a_search_that_begins_anew_at_each_character_ends_at_a_limit() -> None:
    """Each search for the next match reads the rest of the text."""
    longer = "".join([".map(a, a + a + a + a + a + a + a + a)"] * 3)
    text = f"[{PATTERN.format('lowerAscii()')}]{longer}.exists(a, a.findAll('a.*c|a').size() < 0)"
    start = time.process_time()
    with pytest.raises(SelectorError, match="actual cost limit exceeded"):
        compile_selector(text).match(
            Device(driver="d", pool="p", name="n", attributes={"d/x": "ab" * 32, "d/y": 1})
        )
    assert time.process_time() - start < 1


def test_constant_patterns_of_one_selector_are_bounded_together() -> None:
    """They are compiled with it, whether or not an evaluation reaches them."""
    calls = [PATTERN.format(f"matches('\\\\pL{{15}}{number}')") for number in range(200)]
    start = time.process_time()
    with pytest.raises(SelectorError, match="too large together"):
        compile_selector(" || ".join(calls))
    assert time.process_time() - start < 1


@pytest.mark.parametrize(
    "pattern",
    [
        "\\\\pL+[-_ ]\\\\pL+\\\\pN+",
        ".{1,253}",
        "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        "(?i)^nvidia (a|h)\\\\d{2,3}",
    ],
)
def test_usual_patterns_are_evaluated_for_many_items(pattern: str) -> None:
    """The limit is far away from what anybody writes."""
    holder = Device(driver="d", pool="p", name="n", attributes={"d/x": "nvidia h100" + "x" * 50})
    calls = PATTERN.format(f"matches('{pattern}')")
    assert compile_selector(f"[{','.join(['1'] * 50)}].all(i, {calls})").match(holder) is True
    assert compile_selector(
        f"[{','.join(['1'] * 20)}].all(i, {calls.replace('matches', 'find')} != '')"
    ).match(holder)


ONES = f"[{','.join(['1'] * 1000)}]"


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "'x'.replace('', 'xxxxxxxxxxxxxxx').replace('', 'xxxxxxxxxxxxxxx').split('').all(c, c == 'x')",
        "lists.range(30000).all(x, true)",
        f"cel.bind(l, {ONES}, l.all(x, l.all(y, y > 0)))",
        f"[{ONES}].all(l, l.all(x, l.all(y, y > 0)))",
        f"optional.of({ONES}).optMap(l, l.all(x, l.all(y, y > 0))).value()",
        f"cel.bind(l, [{ONES}], l[0].all(x, l[0].all(y, y > 0)))",
        f"[{ONES}].first().value().all(x, [{ONES}].first().value().all(y, y > 0))",
        f"[{ONES}].map(l, l)[0].filter(x, x > 0).all(x, [{ONES}].map(l, l)[0].all(y, y > 0))",
        f"device.attributes['d'].?x.orValue({ONES}).all(x, device.attributes['d'].?x.orValue({ONES}).all(y, y > 0))",
        f"(device.driver == '' ? [1] : {ONES}).all(x, (device.driver == '' ? [1] : {ONES}).all(y, y > 0))",
    ],
)
def test_no_selector_costs_more_than_its_bound(text: str) -> None:
    """Below 2,000 nobody counts what it spends on thousands of devices, and below the limit its fast form counts nothing."""
    program = compile_selector(text)
    found, spent = program.measure(device())
    assert spent <= program.bound or isinstance(found, SelectorError)
    # Without a fast form `match` does what `measure` does.
    if isinstance(found, SelectorError) and is_fast(program):
        with pytest.raises(SelectorError, match="actual cost limit exceeded"):
            program.match(device())
