"""What limits leave: of claims as written, and of the devices chosen for them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apportion.allocator.finished import finished
from apportion.dra.claim import Claim
from apportion.dra.quantity import NANO, Quantity
from apportion.quota.charge import Charge, charges
from apportion.quota.least import least, possible
from apportion.quota.narrow import narrowed
from apportion.quota.use import Excess, QuotaUse
from tests.quota.quotas import MODEL, allocation, claim, either, gpu, mig, published, quota


def use_of(*resources: dict[str, object], used: tuple[Charge, ...] = ()) -> QuotaUse:
    """Return the use of a quota that has these charges."""
    found = QuotaUse(quota("q", *resources), frozenset({"team"}))
    found.add(used)
    return found


GPUS = {"name": "gpus", "deviceClass": "gpu", "limit": 2}


def test_what_asks_for_more_than_is_left_names_quota_resource_and_amounts() -> None:
    """Used, asked and limit, in the units of the quota."""
    use = use_of(GPUS, used=(Charge("gpu", "d"),))
    found = finished(possible((claim(("gpu", 2)),), use, shares=False))
    assert isinstance(found, Excess)
    assert str(found) == "AcceleratorQuota q, resource gpus: used 1, asked 2, limit 2"


def test_a_claim_that_fits_is_asked_as_it_is_written() -> None:
    """The very same object, so that caches know it."""
    claims = (claim(("gpu", 2)), claim(("nic", 8)))
    assert finished(possible(claims, use_of(GPUS), shares=False)) is claims


def test_an_alternative_beyond_the_limit_is_left_out_for_a_later_one() -> None:
    """The others keep their names."""
    use = use_of(GPUS, used=(Charge("gpu", "d"),))
    found = finished(possible((either(("gpu", 2), ("gpu", 1), ("mig", 4)),), use, shares=False))
    assert not isinstance(found, Excess)
    assert [one.name for one in found[0].slots[0].alternatives] == ["a1", "a2"]


def test_where_devices_give_shares_a_request_may_take_less_than_a_device() -> None:
    """A tenth of a GPU may be left; nothing may not."""
    most = use_of(GPUS, used=(Charge("gpu", "d"), Charge("gpu", "d", devices=NANO * 9 // 10)))
    assert not isinstance(finished(possible((claim(),), most, shares=True)), Excess)
    assert isinstance(finished(possible((claim(),), most, shares=False)), Excess)
    most.add((Charge("gpu", "d", devices=NANO // 10),))
    assert isinstance(finished(possible((claim(),), most, shares=True)), Excess)


def test_a_request_for_capacity_takes_at_least_that() -> None:
    """16Gi are the limit, and 10Gi are used: 10Gi are too much, 6Gi are not."""
    use = use_of({"name": "memory", "capacity": "memory", "limit": "16Gi"})
    use.add(
        charges(claim(), allocation(gpu(), consumed={"memory": "10Gi"}), published([gpu(shared=True)]).get)
    )
    assert isinstance(finished(possible((claim(capacity={"memory": "10Gi"}),), use, shares=True)), Excess)
    assert not isinstance(finished(possible((claim(capacity={"memory": "6Gi"}),), use, shares=True)), Excess)


REQUESTS = st.tuples(st.sampled_from(["gpu", "mig", "nic"]), st.integers(1, 3))


@pytest.mark.slow
@given(
    st.lists(st.lists(REQUESTS, min_size=1, max_size=3), min_size=1, max_size=3),
    st.integers(0, 4),
    st.integers(0, 6),
)
def test_the_bound_is_that_of_the_best_choice_of_alternatives(
    written: list[list[tuple[str, int]]], used: int, limit: int
) -> None:
    """Brute force: every choice; refused is only what no choice could have, and no alternative of a good choice is left out."""
    use = use_of({"name": "gpus", "deviceClass": "gpu", "limit": limit})
    use.add((Charge("gpu", "d"),) * used)
    claims = tuple(either(*alternatives, name=f"c{index}") for index, alternatives in enumerate(written))
    choices = [*product(*[range(len(alternatives)) for alternatives in written])]
    taken = {
        choice: sum(
            count
            for alternatives, index in zip(written, choice, strict=True)
            for device_class, count in [alternatives[index]]
            if device_class == "gpu"
        )
        for choice in choices
    }
    good = [choice for choice, amount in taken.items() if not amount or used + amount <= limit]
    assert least(claims, use, shares=False)[0] == min(taken.values()) * NANO
    found = finished(possible(claims, use, shares=False))
    if isinstance(found, Excess):
        assert not good
        return
    kept = [{one.name for one in each.slots[0].alternatives} for each in found]
    assert all(f"a{index}" in names for choice in good for index, names in zip(choice, kept, strict=True))
    assert all(
        any(choice[number] == int(name[1:]) for choice in good)
        for number, names in enumerate(kept)
        for name in names
    )


def test_devices_of_which_one_takes_too_much_are_left_out_by_a_selector() -> None:
    """80Gi do not fit into 50Gi: smaller GPUs may."""
    [resource] = use_of({"name": "memory", "capacity": "memory", "limit": "50Gi"}).resources
    big = gpu()
    found = narrowed(
        (claim(),), (allocation(big),), resource, Quantity.parse("50Gi").nano, published([big]).get
    )
    assert found is not None
    [text] = found[0].slots[0].alternatives[0].selectors
    assert text == (
        'device.driver != "gpu.apportion.dev" ||'
        ' device.capacity["gpu.apportion.dev"].?memory.orValue(quantity("0")).compareTo(quantity("50Gi")) <= 0'
    )
    assert (
        narrowed(found, (allocation(big),), resource, Quantity.parse("50Gi").nano, published([big]).get)
        is None
    )


def test_a_model_or_profile_of_which_nothing_is_left_is_left_out() -> None:
    """Others serve the claim, if there are any."""
    for entry, name, value in (
        ({"model": MODEL}, "productName", MODEL),
        ({"profile": "1g.10gb"}, "profile", "1g.10gb"),
    ):
        [resource] = use_of({"name": "r", "limit": 0, **entry}).resources
        part = mig()
        found = narrowed((claim(),), (allocation(part),), resource, 0, published([part]).get)
        assert found is not None
        [text] = found[0].slots[0].alternatives[0].selectors
        assert f'.?{name}.orValue("") != "{value}"' in text


def test_an_alternative_that_no_selector_can_mend_is_dropped() -> None:
    """Of a class alone, or for shares."""
    [resource] = use_of({"name": "r", "deviceClass": "gpu", "limit": 0}).resources
    made: Claim = either(("gpu", 1), ("mig", 1))
    found = narrowed((made,), (allocation(gpu(), request="r0/a0"),), resource, 0, published([gpu()]).get)
    assert found is not None
    assert [one.name for one in found[0].slots[0].alternatives] == ["a1"]
    assert narrowed((claim(),), (allocation(gpu()),), resource, 0, published([gpu()]).get) is None
