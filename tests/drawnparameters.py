"""Opaque parameters as anybody might write them, and as they should be: hypothesis draws both."""

from hypothesis import strategies as st

from apportion.api.deviceconfig import NVIDIA, OURS

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
        *("defaultPerDevicePinnedMemoryLimit", "0"),
    ]
)
WORDS = st.sampled_from(
    [OURS, NVIDIA, "GpuConfig", "MigDeviceConfig", "TimeSlicing", "MPS", "Default", "Long", "10Gi", "", "0"]
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)  # what JSON in the API can hold
    | st.floats(allow_nan=False, allow_infinity=False)
    | WORDS
    | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TERMS = st.fixed_dictionaries(
    {},
    optional={
        "defaultActiveThreadPercentage": st.integers(0, 101) | VALUES,
        "defaultPinnedDeviceMemoryLimit": st.sampled_from(["10Gi", "1Mi", "1", 2**30]) | VALUES,
        "defaultPerDevicePinnedMemoryLimit": st.dictionaries(
            st.sampled_from(["0", "1", "x"]), WORDS, max_size=2
        ),
        "multiUser": st.booleans() | VALUES,
    },
)
SHARING = st.fixed_dictionaries(
    {"strategy": st.sampled_from(["TimeSlicing", "MPS"]) | VALUES},
    optional={
        "timeSlicingConfig": st.fixed_dictionaries({}, optional={"interval": WORDS, "x": VALUES}) | VALUES,
        "mpsConfig": TERMS | VALUES,
        "x": VALUES,
    },
)
PARAMETERS = st.fixed_dictionaries(
    {
        "apiVersion": st.sampled_from([OURS, NVIDIA]) | VALUES,
        "kind": st.sampled_from(["GpuConfig", "MigDeviceConfig", "NpuConfig"]) | VALUES,
    },
    optional={"sharing": SHARING | VALUES, "rankTable": st.booleans() | VALUES, "x": VALUES},
)
