"""The fast form of a selector may only ever say what the precise form says."""

from hypothesis import HealthCheck, event, given, settings

from apportion.cel import compile_selector
from apportion.dra.device import Device
from apportion.errors import SelectorError
from tests.cel.generate import devices, expressions


def verdict(text: str, device: Device, *, precisely: bool) -> bool | str:
    """Return match, no match, or the text of the error."""
    program = compile_selector(text)
    try:
        return program.match_precisely(device) if precisely else program.match(device)
    except SelectorError as error:
        return str(error)


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions(), devices)
def test_both_evaluators_agree_on_every_selector_and_device(text: str, device: Device) -> None:
    """Well typed or not, with absorbed errors or without: one answer, and the batch gives it too."""
    try:
        program = compile_selector(text)
    except SelectorError:
        event("does not compile")
        return
    event("has a fast form" if program.is_fast else "has no fast form")
    exact = verdict(text, device, precisely=True)
    event(f"answers {exact}" if isinstance(exact, bool) else "fails")
    assert verdict(text, device, precisely=False) == exact
    (batched,) = program.matches([device])
    assert (str(batched) if isinstance(batched, SelectorError) else batched) == exact


@settings(max_examples=1500, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(expressions(), devices, devices)
def test_a_program_gives_the_same_answer_to_devices_that_agree_on_what_it_reads(
    text: str, one: Device, other: Device
) -> None:
    """`reads` is what a cache of results may be keyed by."""
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
    assert verdict(text, one, precisely=False) == verdict(text, twin, precisely=False)
