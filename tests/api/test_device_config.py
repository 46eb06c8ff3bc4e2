"""The opaque parameters of claims and classes for our drivers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.api.deviceconfig import NVIDIA, OURS, Mps, in_force, read
from apportion.dra.claim import Config
from apportion.errors import BrokenInput
from tests.drawnparameters import PARAMETERS, VALUES

AT = "spec.devices.config[0].opaque.parameters"
MPS = "sharing.mpsConfig"
EACH = "defaultPerDevicePinnedMemoryLimit"


def mps(**terms: Any) -> dict[str, Any]:
    return {"strategy": "MPS", "mpsConfig": terms}


def config(kind: str = "GpuConfig", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": NVIDIA, "kind": kind, **fields}


@pytest.mark.slow
@given(PARAMETERS | VALUES)
def test_parameters_are_taken_whole_or_refused(parameters: Any) -> None:
    """Whatever somebody writes: nothing of it is dropped, nothing raises anything but the error for users."""
    try:
        found = read(parameters, field=AT)
    except BrokenInput as error:
        assert error.field.startswith(AT)  # noqa: PT017 - most examples are refused, and that is right
    else:
        assert found.model_dump(by_alias=True, exclude_unset=True) == parameters


@pytest.mark.parametrize(
    "parameters",
    [
        config(),
        config(sharing={"strategy": "TimeSlicing"}),
        config(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Default"}}),
        config("MigDeviceConfig"),
        config("MigDeviceConfig", sharing={"strategy": "TimeSlicing"}),
        config() | {"apiVersion": OURS},
    ],
)
def test_what_asks_for_nothing_special_is_taken(parameters: dict[str, Any]) -> None:
    """Time slicing with the default interval is what a GPU does for all that share it."""
    found = read(parameters, field=AT)
    assert (found.kind, found.time_slice, found.mps) == (parameters["kind"], "Default", None)


def test_time_slices_and_limits_are_read_as_they_are_written() -> None:
    """MPS without terms is MPS without limits."""
    sliced = read(
        config(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}), field=AT
    )
    assert (sliced.time_slice, sliced.mps) == ("Long", None)
    assert read(config("MigDeviceConfig", sharing={"strategy": "MPS"}), field=AT).mps == Mps()
    terms = {"defaultActiveThreadPercentage": 50, "defaultPinnedDeviceMemoryLimit": "10Gi", "multiUser": True}
    limited = read(config(sharing={"strategy": "MPS", "mpsConfig": terms}), field=AT).mps
    assert limited == Mps.from_json(terms)


@pytest.mark.parametrize(
    ("parameters", "field", "reason"),
    [
        (
            config(sharing=mps(defaultActiveThreadPercentage=0)),
            f"{MPS}.defaultActiveThreadPercentage",
            "greater",
        ),
        (
            config(sharing=mps(defaultPinnedDeviceMemoryLimit="9k")),
            f"{MPS}.defaultPinnedDeviceMemoryLimit",
            "1Mi",
        ),
        (
            config(sharing=mps(defaultPerDevicePinnedMemoryLimit={"x": "1Gi"})),
            f"{MPS}.{EACH}",
            "neither the index",
        ),
        (
            config(sharing=mps(defaultPerDevicePinnedMemoryLimit={"MIG-1": "1Gi"})),
            f"{MPS}.{EACH}",
            "no whole GPU",
        ),
        (
            config("MigDeviceConfig", sharing=mps(defaultPerDevicePinnedMemoryLimit={"GPU-1": "1Gi"})),
            f"{MPS}.{EACH}",
            "has no UUID before it is cut",
        ),
        (config(sharing={"strategy": "TimeSlicing", "mpsConfig": {}}), "sharing", "mpsConfig has no meaning"),
        (config(sharing={"strategy": "MPS", "timeSlicingConfig": {}}), "sharing", "timeSlicingConfig has no"),
        (config(sharin={"strategy": "MPS"}), "sharin", "is not known"),
        (config("VfioDeviceConfig"), "kind", "known are GpuConfig and MigDeviceConfig"),
        ({"kind": "GpuConfig"}, "apiVersion", f"known are {OURS} and {NVIDIA}"),
        (
            config(sharing={"strategy": "MPS", "mpsConfig": {"defaultPinnedDeviceMemoryLimit": "10Gx"}}),
            "sharing.mpsConfig.defaultPinnedDeviceMemoryLimit",
            "is not a quantity",
        ),
    ],
)
def test_a_refusal_names_the_field_and_the_reason(
    parameters: dict[str, Any], field: str, reason: str
) -> None:
    """As NVIDIA's driver does where it decodes strictly; and what could be kept on no device is not promised."""
    with pytest.raises(BrokenInput, match=reason) as refused:
        read(parameters, field=AT)
    assert refused.value.field == f"{AT}.{field}"


KINDS = ("GpuConfig", "MigDeviceConfig")


def last_that_holds(entries: list[Config], kind: str) -> int | None:
    """Return the position of the entry that NVIDIA's driver takes for a device that `kind` suits (dra-driver-nvidia-gpu, device_state.go)."""
    for position in reversed(range(len(entries))):
        entry = entries[position]
        if entry.requests or (entry.opaque or {})["parameters"]["kind"] == kind:
            return position
    return None


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(KINDS)), max_size=6))
def test_what_is_in_force_is_what_the_last_entries_leave(drawn: list[tuple[bool, str]]) -> None:
    """With the device known it is what NVIDIA's driver takes, and what suits nothing; without, all that any device may get of one of each kind."""
    entries = [Config(("r",) if named else (), {"parameters": {"kind": kind}}) for named, kind in drawn]
    any_device = in_force(entries)
    for kind in KINDS:
        expected = last_that_holds(entries, kind)
        kept = in_force(entries, lambda asked, kind=kind: asked == kind)  # type: ignore[misc]
        holding = [position for position in kept if entries[position].requests or drawn[position][1] == kind]
        assert holding[-1:] == ([] if expected is None else [expected])
        if expected is not None and drawn[expected][1] == kind:
            assert expected in any_device
    assert len(any_device) <= len(KINDS)
