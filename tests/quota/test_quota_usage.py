"""Use follows charges one by one, and equals what a recount from the start finds."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.dra.quantity import NANO
from apportion.quota.charge import Charge
from apportion.quota.usage import Usage
from tests.quota.quotas import quota

CHARGES = st.builds(
    Charge,
    st.sampled_from(["gpu", "mig"]),
    st.just("gpu.apportion.dev"),
    st.sampled_from(["", "1g.10gb"]),
    st.just("m"),
    st.sampled_from([NANO, NANO // 10]),
    st.sampled_from([(), (("gpu.apportion.dev/memory", 5 * NANO),)]),
)
NAMESPACES = st.sampled_from(["n1", "n2", "n3"])
EVENTS = st.one_of(
    st.tuples(
        st.sampled_from(["c1", "c2", "c3", "c4"]), NAMESPACES, st.lists(CHARGES, max_size=3).map(tuple)
    ),
    st.dictionaries(NAMESPACES, st.sampled_from(["a", "b"])),
)
"""A claim's charges, or which quotas namespaces obey."""
A = quota("a", {"name": "gpus", "deviceClass": "gpu"}, {"name": "memory", "capacity": "memory"})
B = quota("b", {"name": "slices", "profile": "1g.10gb"})


@pytest.mark.slow
@given(st.lists(EVENTS, max_size=30))
def test_use_equals_a_recount_after_any_events(events: list[object]) -> None:
    """Claims come, change namespace and go; namespaces move between quotas."""
    usage, quotas = Usage(), {"a": A, "b": B}
    held: dict[str, tuple[str, tuple[Charge, ...]]] = {}
    of: dict[str, str] = {}
    usage.assign(quotas, of)
    for event in events:
        if isinstance(event, dict):
            of = event
            usage.assign(quotas, of)
        else:
            key, namespace, charges = event  # type: ignore[misc]
            held[key] = namespace, charges
            usage.put(key, namespace, charges)
    fresh = Usage()
    fresh.assign(quotas, of)
    for key, (namespace, charges) in held.items():
        fresh.put(key, namespace, charges)
    found = {use.name: use.used for use in usage}
    assert found == {use.name: use.used for use in fresh}
    counted = Counter(
        one for namespace, charges in held.values() for one in charges if of.get(namespace) == "a"
    )
    assert found["a"][0] == sum(
        one.devices * count for one, count in counted.items() if one.device_class == "gpu"
    )


def test_a_claim_is_charged_once_however_often_it_is_seen() -> None:
    """A shared claim is one claim."""
    usage = Usage()
    usage.assign({"a": A}, {"n1": "a"})
    charge = (Charge("gpu", "gpu.apportion.dev"),)
    for _ in range(3):
        usage.put("c", "n1", charge)
    [use] = usage
    assert use.used == [NANO, 0]
    assert use.version == 1


def test_a_changed_spec_counts_what_is_there() -> None:
    """What namespaces have is remembered by kinds of devices, not by what some quota counts."""
    usage = Usage()
    usage.assign({"b": B}, {"n1": "b"})
    usage.put("c", "n1", (Charge("gpu", "d"), Charge("gpu", "d")))
    usage.assign({"a": A}, {"n1": "a"})
    [use] = usage
    assert use.used == [2 * NANO, 0]
