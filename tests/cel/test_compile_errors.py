"""Compile errors: a selector that always fails is refused with line, column and reason."""

import pytest

from apportion.cel import compile_selector
from apportion.errors import SelectorError

REFUSED = [
    ("?!", "1:1: Syntax error"),
    ("", "Syntax error"),
    ("true &&", "Syntax error"),
    ("true\n  && $", "2:6: Syntax error"),
    ("'abc", "Syntax error"),
    ('"\\q" == "a"', "Syntax error"),
    ("f(1,)", "Syntax error"),
    ("while", "Syntax error"),
    ("99999999999999999999 > 1", "Syntax error"),
    ("1", "must evaluate to bool or the unknown type, not int"),
    ('"x"', "must evaluate to bool or the unknown type, not string"),
    ("[true]", "must evaluate to bool or the unknown type, not list(bool)"),
    ('timestamp("2020-01-01T00:00:00Z")', "not google.protobuf.Timestamp"),
    ("foo", "1:1: undeclared reference to 'foo' (in container '')"),
    ("device.driver == bar", "1:18: undeclared reference to 'bar'"),
    ("device.foo", "1:7: undefined field 'foo'"),
    ("has(device.foo)", "undefined field 'foo'"),
    ("nope(1)", "undeclared reference to 'nope'"),
    ('device.attributes["d"].x.nope()', "1:30: undeclared reference to 'nope'"),
    ("math.least(1, 2) == 1", "undeclared reference to 'least'"),
    ('base64.encode(b"x") == ""', "undeclared reference to 'encode'"),
    ('"abc".reverse() == ""', "found no matching overload for 'reverse' applied to 'string.()'"),
    ("device.driver > 1", "found no matching overload for '_>_' applied to '(string, int)'"),
    ("device.driver.startsWith(1)", "found no matching overload for 'startsWith' applied to 'string.(int)'"),
    ("1 == 1.0", "found no matching overload for '_==_' applied to '(int, double)'"),
    ("1 + 1u == 2", "found no matching overload for '_+_' applied to '(int, uint)'"),
    ("true && 1", "found no matching overload for '_&&_' applied to '(bool, int)'"),
    ("!1", "found no matching overload for '!_' applied to '(int)'"),
    ("1 ? true : false", "found no matching overload for '_?_:_'"),
    ("[1].exists(x, x)", "found no matching overload for '_||_'"),
    ("[1].filter(x, 1) == []", "found no matching overload for '_?_:_'"),
    ("device.driver.exists(x, true)", "cannot be range of a comprehension"),
    ("device.driver.foo", "type 'string' does not support field selection"),
    ('device.capacity["d"].m > 1', "found no matching overload"),
    (
        'device.capacity["d"].m.isGreaterThan(semver("1.0.0"))',
        "found no matching overload for 'isGreaterThan'",
    ),
    ('quantity(1) == quantity("1")', "found no matching overload for 'quantity' applied to '(int)'"),
    ('[1, "a"] == []', "1:5: expected type 'int' but found 'string'"),
    ('{"a": 1, "b": "c"} == {}', "expected type 'int' but found 'string'"),
    ("[1, dyn(2)] == []", "expected type 'int' but found 'dyn'"),
    ('device.driver.matches("(")', "invalid matches argument"),
    ('device.driver.matches("^[\\\\p{L}0-9 ]{1,64}$")', "pattern too large"),
    ('device.driver.find("[") == ""', "invalid find argument"),
    ('duration("x") == duration("1s")', "invalid duration argument"),
    ('timestamp("x") == timestamp(0)', "invalid timestamp argument"),
    ('"%d".format(["x"]) == ""', "decimal clause can only be used on integers"),
    ('"%s".format([]) == ""', "index 0 out of range"),
    ('"%s".format([1, 2]) == ""', "too many arguments supplied"),
    ('"%q".format([1]) == ""', "unrecognized formatting clause"),
    ("[1].map(1, 2) == []", "argument must be a simple name"),
    ("has(1)", "invalid argument to has() macro"),
    ("[1].exists(x, x, true)", "duplicate variable name"),
    ("cel.bind(a.b, 1, true)", "must be simple names"),
    ("Foo{a: 1} == 1", "undeclared reference"),
    ("+".join(["1"] * 300) + " == 300", "expression recursion limit exceeded"),
    ("x" * 200_000, "has more than 100000 characters"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED, ids=[text[:40] for text, _ in REFUSED])
def test_a_selector_that_always_fails_is_refused_with_its_reason(text: str, reason: str) -> None:
    """The message is one short line."""
    with pytest.raises(SelectorError) as caught:
        compile_selector(text)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300
