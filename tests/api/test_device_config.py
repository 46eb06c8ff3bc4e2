"""The opaque parameters of claims and classes for our drivers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.api.deviceconfig import NVIDIA, OURS, read
from apportion.errors import BrokenInput

AT = "spec.devices.config[0].opaque.parameters"
NAMES = st.sampled_from(
    [
        *(
            "apiVersion",
            "kind",
            "sharing",
            "strategy",
            "timeSlicingConfig",
            "time_slicing_config",
            "interval",
        ),
        *("mpsConfig", "defaultActiveThreadPercentage", "defaultPinnedDeviceMemoryLimit", "multiUser", "x"),
    ]
)
WORDS = st.sampled_from(
    [OURS, NVIDIA, "GpuConfig", "MigDeviceConfig", "TimeSlicing", "MPS", "Default", "Long", "10Gi", "", "0"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
SHARING = st.fixed_dictionaries(
    {"strategy": st.sampled_from(["TimeSlicing", "MPS"]) | VALUES},
    optional={
        "timeSlicingConfig": st.fixed_dictionaries({}, optional={"interval": WORDS, "x": VALUES}) | VALUES,
        "mpsConfig": VALUES,
        "x": VALUES,
    },
)
PARAMETERS = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from([OURS, NVIDIA]) | VALUES,
        "kind": st.sampled_from(["GpuConfig", "MigDeviceConfig"]) | VALUES,
    },
    optional={"sharing": SHARING | VALUES, "x": VALUES},
)


def config(kind: str = "GpuConfig", **fields: Any) -> dict[str, Any]:
    return {"apiVersion": NVIDIA, "kind": kind, **fields}


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
    assert read(parameters, field=AT).kind == parameters["kind"]


@pytest.mark.parametrize(
    ("parameters", "field", "reason"),
    [
        (config(sharing={"strategy": "MPS"}), "sharing.strategy", "MPS is not offered"),
        (config("MigDeviceConfig", sharing={"strategy": "MPS"}), "sharing.strategy", "MPS is not offered"),
        (
            config(sharing={"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}),
            "sharing.timeSlicingConfig.interval",
            "Long is not offered",
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
    """As NVIDIA's driver does where it decodes strictly; and what would not be kept is not promised."""
    with pytest.raises(BrokenInput, match=reason) as refused:
        read(parameters, field=AT)
    assert refused.value.field == f"{AT}.{field}"
