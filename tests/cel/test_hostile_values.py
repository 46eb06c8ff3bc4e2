"""Hostile values: numbers that Python cannot read, and values that outgrow their selector, end in an error and nothing else."""

import resource
import time
from threading import Thread

import pytest

from apportion.cel import compile_selector
from apportion.errors import SelectorError
from tests.cel.devices import device

LONG = "1" * 5000


def outcome(text: str) -> bool | str:
    """Return what a selector says of a device, with and without its fast form; an error's text."""
    try:
        program = compile_selector(text)
        found = program.match(device())
        assert program.match_precisely(device()) is found
    except SelectorError as error:
        return str(error)
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'int("{LONG}") > 0', "type conversion error from 'string' to 'int'"),
        (f'int(device.driver + "{LONG}") > 0', "type conversion error from 'string' to 'int'"),
        (f'uint("{LONG}") > 0u', "type conversion error from 'string' to 'uint'"),
        (f'duration("{LONG}s") > duration("1s")', "google.protobuf.Duration"),
        (f'quantity("{LONG}").isInteger()', "is not a quantity"),
        (f'quantity("1e{LONG}").isInteger()', "is not a quantity"),
        (f'isQuantity("{LONG}")', False),
        (f'isSemver("{LONG}.0.0") || isSemver("1.0.0-{LONG}") || isSemver("v{LONG}", true)', False),
        ('quantity("1e400").asApproximateFloat() > 1.0', True),
        ('quantity("-1e400").asApproximateFloat() < 1.0', True),
        ('timestamp("2024-01-01T00:00:00Z").getHours("99:00") == 0', "unknown time zone 99:00"),
    ],
)
def test_a_number_that_python_cannot_read_is_an_error_of_the_selector(text: str, expected: object) -> None:
    """Any other exception would be a defect of ours wherever the claim is decided about."""
    found = outcome(text)
    assert found is expected or str(expected) in str(found)


def nested(levels: int, former: str, body: str, first: str = "device.driver") -> str:
    """Return variables each of which is made of the one before (`#`); `body`: what becomes of the last (`@`)."""
    body = body.replace("@", f"a{levels}")
    for level in range(levels, 0, -1):
        body = f"cel.bind(a{level}, {former.replace('#', f'a{level - 1}')}, {body})"
    return f"cel.bind(a0, {first}, {body})"


TEN = f"[{','.join(['#'] * 10)}]"


@pytest.mark.parametrize(
    "text",
    [
        nested(31, "# + #", "@.size() > 0", "[1, 2]"),
        nested(31, "# + #", "@.size() > 0"),
        nested(31, "# + #", "@.size() > 0", "bytes(device.driver)"),
        nested(9, TEN, "@ == @"),
        nested(9, TEN, "@ in [@]"),
        nested(9, TEN, "sets.contains([@], [@])"),
        nested(9, TEN, "@.distinct().size() > 0"),
        nested(9, TEN, '"%s".format([@]).size() > 0'),
        nested(30, '{"a": #, "b": #}', "@ == @"),
        nested(30, "optional.of([#, #])", "@ == @"),
        nested(4, '#.replace("", "0123456789abcdef")', f"[{','.join(['@'] * 300)}].size() > 0"),
        nested(
            3, '#.replace("", "0123456789abcdef")', f'"{"%s" * 300}".format([{",".join(["@"] * 300)}]) == ""'
        ),
    ],
)
def test_a_value_that_outgrows_its_selector_ends_the_evaluation(text: str) -> None:
    """Some hundred characters would fill any memory, or keep the operator busy for ever, at a price of a few units."""
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    assert "actual cost limit exceeded" in str(outcome(text))
    assert time.process_time() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


LONG_TEXT = "'\U0001f600'" + f".replace('', '{'x' * 15}')" * 3


@pytest.mark.parametrize(
    "each",
    [
        ".all(i, !(s + string(i) + device.driver).matches('^y'))",
        ".map(i, s + string(i)).map(v, d.b + v) == []",
    ],
)
def test_values_that_a_selector_makes_are_not_kept(each: str) -> None:
    """Results are, of patterns for short texts, and errors: with a dozen MB for each device the operator's memory would be full soon."""
    variables = "cel.bind(d, device.attributes['a'], "
    program = compile_selector(
        f"{variables}cel.bind(t, {LONG_TEXT}, cel.bind(s, t + t + t + t + t + t + t, lists.range(40){each})))"
    )
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    kept = [program.measure(device(driver=f"d{number}.example.com"))[0] for number in range(16)]
    kept += program.matches(device(driver=f"e{number}.example.com") for number in range(4))
    assert len(set(map(str, kept))) == 1
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_nested_values_of_a_usual_size_are_compared() -> None:
    """The bound is far away from what anybody writes."""
    assert outcome(nested(3, TEN, "@ == @ && @ in [@] && [@].indexOf(@) == 0")) is True
    assert outcome('"%s".format([[device.driver, "a"]]).size() > 0') is True


@pytest.mark.slow
@pytest.mark.parametrize(
    "former", ["{#: #}", "[{#: #}]", "#.transformMap(k, v, #).transformMap(k, v, {#: #})"]
)
def test_types_that_outgrow_their_selector_are_refused(former: str) -> None:
    """Each variable is a map of two of the one before: twenty of them, and the types have a million parts, though no value has more than two."""
    start = time.process_time()
    assert "nested too deeply" in str(outcome(nested(25, former, "true", "{1: 1}")))
    assert time.process_time() - start < 10
    assert "nested too deeply" not in str(outcome(nested(5, former, "@.size() > 0", "{1: 1}")))


def test_an_evaluation_in_a_thread_is_bounded_whatever_is_evaluated_meanwhile() -> None:
    """What others visit is not counted with it, and their beginning does not begin its count anew."""
    hostile = compile_selector(nested(9, TEN, "@ == @"))
    small, equal = compile_selector("device.driver != ''"), compile_selector("[[1], [2]] == [[1], [2]]")
    ended = list[tuple[bool | SelectorError, int]]()
    thread = Thread(target=lambda: ended.append(hostile.measure(device())), daemon=True)
    thread.start()
    start = time.monotonic()
    while not ended and time.monotonic() - start < 60:
        assert small.match(device()) is True
        assert equal.match(device()) is True
    assert "actual cost limit exceeded" in str(ended)
