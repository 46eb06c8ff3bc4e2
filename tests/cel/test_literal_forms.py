"""Selectors that differ only in equally long compared strings are compiled once, with unchanged answers."""

import pytest

from apportion.cel import Program, Programs, compile_selector
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.cel.evaluators import is_fast, verdict

WORDS = ("A100", "H100", "a\n00", "5+5 ", "[a-z", "1.0.", "10Gi", "gpu ")
"""Strings of one length; some are no pattern, no version, no quantity."""

FRAMES = [
    'device.driver == "{}"',
    'device.driver != "{}" && device.attributes["d"].model == "{}"',
    '"{}" == device.driver || "gpu " == "{}"',
    'device.attributes["{}"].model == "A100"',
    'device.attributes["d"]["{}"] == "A100"',
    'device.attributes["d"].model in ["{}", "none"]',
    'device.attributes["d"].model.matches("{}")',
    'device.attributes["d"].model.matches("A1.*") && device.driver == "{}"',
    'device.attributes["d"].version.isGreaterThan(semver("{}"))',
    'device.attributes["d"].absent == "{}" || device.driver == "gpu "',
    'device.attributes["d"].?absent.orValue("{}") == "{}"',
    'string("{}") == device.driver',
    '["{}"] == ["A100"]',
    '[device.driver].exists(x, x == "{}" || x == "gpu ")',
    'cel.bind(x, "{}", device.driver == x && "{}" == x)',
    '("{}" == device.driver ? "{}" : "A100") == device.attributes["d"].model',
    'device.driver == r"{}"',
    "device.driver == '{}'",
    'device.driver == "gpu " // "{}"',
    '"%s".format(["{}"]) == device.driver',
    'device.driver == "{}" + ""',
    'device.driver == "{}',
    'device.driver == "{}"" ',
    'device.driver == """{}"""',
]

DEVICES = [
    Device(driver, "pool", "device", {"d/model": model})
    for driver in ("gpu ", "H100")
    for model in ("A100", 7)
]


def results(program: Program | SelectorError) -> object:
    """Return all observable results of a program."""
    if isinstance(program, SelectorError):
        return str(program)
    found: list[object] = [program.source, program.reads, is_fast(program)]
    for device in DEVICES:
        found += [verdict(program, device, precisely=precisely) for precisely in (False, True)]
    return found


def uncached(text: str) -> Program | SelectorError:
    """Compile a text without a cache."""
    try:
        return compile_selector(text)
    except SelectorError as error:
        return error


@pytest.mark.parametrize("frame", FRAMES)
def test_texts_compiled_after_others_like_them_say_the_same(frame: str) -> None:
    """For every string in the frame, and after every other string in it: the text's own verdicts and messages."""
    for first in ("A100", "gpu "):
        programs = Programs()
        programs.get(frame.replace("{}", first))
        for word in WORDS:
            text = frame.replace("{}", word)
            assert results(programs.get(text)) == results(uncached(text)), text


def test_a_longer_string_is_another_form() -> None:
    """Columns in messages are those of the text."""
    programs = Programs()
    for word in ("a", "bb", "ccc"):
        for more in ("|| true", '|| device.driver == "gpu "', "&& device.nothing"):
            text = f'device.driver != "{word}" {more}'
            assert results(programs.get(text)) == results(uncached(text))


def test_a_form_costs_no_second_compilation() -> None:
    """The second program shares what was found out about the first."""
    programs = Programs()
    first = programs.get('device.driver == "driver-0000" && device.attributes["d"].model != "A100"')
    other = programs.get('device.driver == "driver-0001" && device.attributes["d"].model != "H100"')
    assert isinstance(first, Program)
    assert isinstance(other, Program)
    assert first.reads is other.reads
