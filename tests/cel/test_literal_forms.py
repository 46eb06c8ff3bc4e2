"""Selectors that differ in the strings they compare with are compiled once; nobody can tell by the answers."""

import pytest

from apportion.cel import Program, Programs, compile_selector
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.cel.evaluators import is_fast, verdict

WORDS = ("A100", "H100", "a\n00", "5+5 ", "[a-z", "1.0.", "10Gi", "gpu ")
"""Strings of one length; some are no pattern, no version, no amount."""

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


def said(program: Program | SelectorError) -> object:
    """Return all that can be seen of a program."""
    if isinstance(program, SelectorError):
        return str(program)
    found: list[object] = [program.source, program.reads, is_fast(program)]
    for device in DEVICES:
        found += [verdict(program, device, precisely=precisely) for precisely in (False, True)]
    return found


def alone(text: str) -> Program | SelectorError:
    """Return the program that no other text has anything to do with."""
    try:
        return compile_selector(text)
    except SelectorError as error:
        return error


@pytest.mark.parametrize("frame", FRAMES)
def test_texts_compiled_after_others_like_them_say_the_same(frame: str) -> None:
    """Whatever string stands in the frame, and whatever stood there before: verdicts and messages are the text's own."""
    for first in ("A100", "gpu "):
        programs = Programs()
        programs.get(frame.replace("{}", first))
        for word in WORDS:
            text = frame.replace("{}", word)
            assert said(programs.get(text)) == said(alone(text)), text


def test_a_longer_string_is_another_form() -> None:
    """Places in messages follow the text."""
    programs = Programs()
    for word in ("a", "bb", "ccc"):
        for more in ("|| true", '|| device.driver == "gpu "', "&& device.nothing"):
            text = f'device.driver != "{word}" {more}'
            assert said(programs.get(text)) == said(alone(text))


def test_a_form_costs_no_second_compilation() -> None:
    """What was found out about one text is the next one's too, not found out again."""
    programs = Programs()
    first = programs.get('device.driver == "driver-0000" && device.attributes["d"].model != "A100"')
    other = programs.get('device.driver == "driver-0001" && device.attributes["d"].model != "H100"')
    assert isinstance(first, Program)
    assert isinstance(other, Program)
    assert first.reads is other.reads
