"""Rules of DRA selectors beyond the CEL specification: look-ups, and which errors are absorbed."""

from typing import Any

import pytest

from apportion.cel import Programs, compile_selector
from apportion.errors import SelectorError
from tests.cel.devices import GPU, device

D = 'device.attributes["gpu.example.com"]'
TRUE = [
    'device.driver == "gpu.example.com"',
    "device.allowMultipleAllocations == false",
    # An unknown domain is an empty map, though it is not in the map of domains.
    'device.attributes["nowhere"].size() == 0',
    'device.capacity["nowhere"] == {}',
    '!("nowhere" in device.attributes)',
    '"gpu.example.com" in device.attributes && "other.example.com" in device.attributes',
    'has(device.attributes.nowhere) && device.attributes[?"nowhere"].hasValue()',
    # A name without a domain is filed under the driver's.
    f"{D}.index == 3",
    'device.attributes["other.example.com"].rack == "r7"',
    f'!has({D}.rack) && !("rack" in {D}) && {D}.?rack.orValue("none") == "none"',
    f'has({D}.index) && {D}[?"index"].hasValue()',
    f"{D}.`index` == 3",
    # White space and comments may be before the question mark, as in a list of several lines.
    f"[\n  // its number\n  ?{D}.?index,\n  ?{D}.?absent,\n] == [3]",
    f'{D}[ ?"index"].hasValue() && {D}.\n  ?index.hasValue()',
    f'cel.bind(dra, {D}, dra.index == 3 && dra.healthy && "types" in dra)',
    # Attributes are of unknown type: numbers compare by value, other types are unequal, and no error.
    f"{D}.index == 3.0 && {D}.index == 3u && {D}.index < 3.5",
    f'!({D}.productName == 5) && {D}.productName != 5 && {D}.driverVersion != "x"',
    f'{D}.index in [1, 2, 3] && !({D}.productName in ["A"]) && "mig" in {D}.types',
    f'{D}.types.includes("gpu") && {D}.index.includes(3) && !{D}.index.includes("3")',
    f'{D}.types.exists(t, t == "mig") && {D}.types.all(i, t, i < 2) && {D}.types.size() == 2',
    f"{D}.exists(name, name == 'index')",
    "device.attributes.exists(d, v, d == 'other.example.com' && v.rack == 'r7')",
    'device.capacity["gpu.example.com"].memory == quantity("81920Mi")',
    'device.capacity["gpu.example.com"].all(name, amount, amount.isGreaterThan(quantity("1")))',
    # && and || forget an operand's error when another operand decides, on either side.
    f"{D}.absent == 1 || true",
    f"true || {D}.absent == 1",
    f"!({D}.absent == 1 && false)",
    f"{D}.absent || {D}.index || true",
    f"[1, 2].exists(x, {D}.absent == x || x == 2)",
    f"![1, 2].all(x, {D}.absent == x && x == 1)",
    f"true ? true : {D}.absent",
    f"[{D}.index].map(x, x / 0) == [] || true",
    # An index that cannot be known before, and everything else of the device as a value.
    'device.attributes[device.driver]["ind" + "ex"] == 3',
    "dyn(device).driver == device.driver",
    "!(1 in [])",
    f"!({D}.absent in [])",
]
FAILS = [
    (f"{D}.absent == 1", "no such key: absent"),
    ('device.attributes["nowhere"].x', "no such key: x"),
    ('device.capacity["nowhere"].x.isInteger()', "no such key: x"),
    (f"{D}.absent == 1 || false", "no such key: absent"),
    (f"{D}.index", "CEL result of type int could not be converted to bool"),
    (f"{D}.types", "CEL result of type list could not be converted to bool"),
    (f"{D}.index && true", "no such overload"),
    (f'{D}.driverVersion == "550.54.15"', "no such overload"),
    (f"{D}.index.exists(x, true)", "got 'types.Int', expected iterable type"),
    (f"{D}.healthy.all(x, true)", "got 'types.Bool', expected iterable type"),
    (f"{D}.productName.exists(x, true)", "got 'types.String', expected iterable type"),
    (f"{D}.driverVersion.exists(x, true)", "expected iterable type"),
    (f'{D}.driverVersion in ["a", "b"]', "unhashable"),
    (f'{D}.productName.isGreaterThan(semver("1.0.0"))', "no such overload"),
    (f"{D}.index.startsWith('x')", "no such overload"),
]


@pytest.mark.parametrize("text", TRUE)
def test_the_rules_of_dra_selectors_hold(text: str) -> None:
    """Both evaluators say true."""
    program = compile_selector(text)
    assert program.match(device()) is True
    assert program.match_precisely(device()) is True


@pytest.mark.parametrize(("text", "reason"), FAILS)
def test_an_error_is_not_no_match(text: str, reason: str) -> None:
    """A failing selector raises an error; the result is not false."""
    program = compile_selector(text)
    for match in (program.match, program.match_precisely):
        with pytest.raises(SelectorError) as caught:
            match(device())
        assert reason in str(caught.value)


def test_a_batch_gives_every_device_its_own_verdict() -> None:
    """Match, no match and error are in the order of the devices."""
    other: dict[str, Any] = {**GPU, "attributes": {"index": {"int": 1}}}
    found = compile_selector(f"{D}.index == 3").matches([device(), device(other), device({})])
    assert found[:2] == [True, False]
    assert isinstance(found[2], SelectorError)


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("true", set()),
        ("device.driver == 'x'", {("field", "driver")}),
        (f"{D}.index == 3", {("attribute", "gpu.example.com/index")}),
        (
            f'has({D}.a) && "b" in {D} && {D}.?c.orValue(true)',
            {("attribute", f"gpu.example.com/{n}") for n in "abc"},
        ),
        ('device.capacity["d"]["m"].isInteger()', {("capacity", "d/m")}),
        (f"cel.bind(d, {D}, d.index == 3)", {("attribute", "gpu.example.com/index")}),
        (f"{D}.exists(k, k == 'x')", None),
        ("device.attributes[device.driver].x", None),
        ('"d" in device.attributes', None),
        ("dyn(device).driver == 'x'", None),
        ("[1].exists(device, device == 1)", set()),
    ],
)
def test_a_program_says_what_it_can_read(text: str, reads: set[tuple[str, str]] | None) -> None:
    """None: it may read anything."""
    found = compile_selector(text).reads
    assert found == (None if reads is None else frozenset(reads))


def test_the_cache_keeps_programs_and_failures_and_forgets_the_least_recently_used() -> None:
    """A text is compiled once while it is kept, whether it compiles or not."""
    programs = Programs(most=2)
    first, broken = programs.get("true"), programs.get("nope")
    assert isinstance(broken, SelectorError)
    assert programs.get("nope") is broken
    assert programs.get("true") is first
    programs.get("false")
    assert programs.get("true") is first
    assert programs.get("nope") is not broken
    assert len(programs) == 2
