"""A driver names the capacities of a device in shares otherwise, withdraws or adds one: nobody else gets the device until these shares are gone."""

import pytest

from apportion.allocator.allocate import allocate
from apportion.allocator.decision import Decision, Refusal
from apportion.allocator.demand import Demand
from apportion.allocator.explain.render import summary
from apportion.allocator.preemption.findvictims import find_victims
from apportion.allocator.preemption.victims import NodeVictims, Victim
from apportion.allocator.search.scorer import Strategy
from apportion.allocator.state import State
from apportion.allocator.terms import Terms
from apportion.dra.allocation import DeviceResult
from apportion.dra.device import DeviceId
from apportion.dra.quantity import Quantity
from apportion.dra.slice import Slice
from tests.allocator.builders import GPU, Raw, amounts, claim, cluster, device, device_request, device_slice

ONE = {"default": "1", "validRange": {"min": "1"}}
NONE = {"default": "0", "validValues": ["0"]}
MEMORY = amounts(memory=80)
WITH_CORES = MEMORY | {"cores": {"value": "100", "requestPolicy": ONE}}
WITH_FANS = MEMORY | {"fans": {"value": "3", "requestPolicy": NONE}}
"""No share takes any of the fans."""


def gpus(capacity: Raw, generation: int = 1, count: int = 1, *, shared: bool = True) -> Slice:
    """Return a slice of GPUs that several claims may share, or one each."""
    rows = [
        device(f"gpu-{number}", capacity=capacity, allowMultipleAllocations=shared) for number in range(count)
    ]
    return device_slice("s", "n1", rows, generation=generation)


def share_of(name: str = "c", *, admin: bool = False, **units: int) -> Demand:
    """Return a claim for a share of a GPU."""
    wanted = {"capacity": {"requests": {key: str(amount) for key, amount in units.items()}}} if units else {}
    return Demand((claim(name, device_request(adminAccess=admin, **wanted)),))


def taken(name: str = "gpu-0", **units: int) -> DeviceResult:
    """Return a share that consumes these amounts."""
    consumed = {key: Quantity.whole(amount) for key, amount in units.items()}
    return DeviceResult("r", DeviceId(GPU, "n1", name), share_id="before", consumed=consumed)


def serves(state: State, demand: Demand, strategy: Strategy = Strategy.LEAST_FRAGMENTATION) -> bool:
    """Say whether the demand gets a device; a search that reuses nothing says the same."""
    found, searched = (allocate(state, demand, Terms(strategy), reuse=reuse) for reuse in (True, False))
    assert type(found) is type(searched)
    return isinstance(found, Decision)


@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (MEMORY, amounts(hbm=80)),
        (WITH_CORES, MEMORY),
        (MEMORY, WITH_CORES),
        (MEMORY, {}),
        ({}, MEMORY),
    ],
    ids=["renamed", "one withdrawn", "one added", "all withdrawn", "the first one added"],
)
def test_a_device_in_shares_of_other_capacities_is_given_to_nobody_until_they_are_gone(
    before: Raw, after: Raw, strategy: Strategy
) -> None:
    """Whenever the operator learns of it, and however many shares there are."""
    state = cluster(gpus(before))
    keys = ["first", "second"]
    for key in keys:
        found = allocate(
            state, share_of(key, **dict.fromkeys(before.keys() & {"memory"}, 10)), Terms(strategy)
        )
        assert isinstance(found, Decision)
        state.hold(key, found.allocations[0].results)
    state.put_slice(gpus(after, generation=2))
    started_later = cluster(gpus(after, generation=2))
    for key, results in state.held().items():
        started_later.hold(key, results)

    wanted = share_of(**dict.fromkeys(after.keys() & {"memory"}, 10))
    for each in (state, started_later):
        for key in keys:
            assert not serves(each, wanted, strategy)
            each.release(key)
        assert serves(each, wanted, strategy)


@pytest.mark.parametrize(
    ("before", "after"), [(MEMORY, WITH_FANS), (WITH_FANS, MEMORY)], ids=["added", "withdrawn"]
)
def test_a_capacity_that_no_share_takes_anything_of_may_come_and_go(before: Raw, after: Raw) -> None:
    """An upgrade of a driver that describes its devices otherwise closes none of them."""
    state = cluster(gpus(before))
    found = allocate(state, share_of(memory=30))
    assert isinstance(found, Decision)
    state.hold("first", found.allocations[0].results)
    state.put_slice(gpus(after, generation=2))

    assert serves(state, share_of(memory=50))
    assert not serves(state, share_of(memory=51))


@pytest.mark.parametrize("shared", [True, False], ids=["no longer shared", "shared from now on"])
def test_a_device_is_given_to_nobody_who_would_have_it_otherwise_than_those_who_have_it(
    *, shared: bool
) -> None:
    """Who has all of it keeps all of it, and nobody gets all of what others share."""
    state = cluster(gpus(MEMORY, shared=shared))
    keys = ["first", "second"] if shared else ["first"]
    for key in keys:
        state.hold(key, [taken(memory=10) if shared else DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    state.put_slice(gpus(MEMORY, generation=2, shared=not shared))
    for key in keys:
        assert not serves(state, share_of(memory=10))
        state.release(key)
    assert serves(state, share_of(memory=10))


def test_shares_of_the_capacities_of_now_do_not_hide_one_of_others() -> None:
    """What kube-scheduler has allocated beside it, say."""
    state = cluster(gpus(WITH_CORES))
    state.hold("now", [taken(memory=10, cores=10)])
    assert serves(state, share_of(memory=10))
    state.hold("before", [taken(memory=10)])
    assert not serves(state, share_of(memory=10))
    state.release("before")
    assert serves(state, share_of(memory=10))


def test_a_device_that_is_withdrawn_and_comes_back_with_other_capacities_is_still_taken() -> None:
    """Its driver is upgraded: it takes its slice away, and publishes another one."""
    state = cluster(gpus(MEMORY))
    state.hold("first", [taken(memory=80)])
    state.drop_slice("s")
    assert not serves(state, share_of())
    state.put_slice(gpus(amounts(hbm=80), generation=2))
    assert not serves(state, share_of(hbm=80))
    state.put_slice(gpus(MEMORY, generation=3))
    assert not serves(state, share_of(memory=1))
    state.hold("first", [taken(memory=79)])
    assert serves(state, share_of(memory=1))


def test_who_looks_at_a_device_takes_nothing_of_it_and_is_let_in_whatever_it_is_called() -> None:
    """Admin access."""
    state = cluster(gpus(amounts(hbm=80)))
    state.hold("looks", [taken(memory=80)._replace(admin_access=True)])
    assert serves(state, share_of(hbm=80))
    state.hold("first", [taken(memory=80)])
    assert not serves(state, share_of(hbm=80))
    assert serves(state, share_of(admin=True))


@pytest.mark.parametrize(
    ("after", "said"),
    [
        (amounts(hbm=80), "a share consumes capacity memory, which the device does not publish"),
        (WITH_CORES, "a share consumes no capacity cores, which the device publishes"),
    ],
    ids=["renamed", "one added"],
)
def test_the_refusal_names_device_capacity_and_holder(after: Raw, said: str) -> None:
    """Not a device that somebody has as a whole."""
    state = cluster(gpus(after, count=2))
    state.hold("ns/whole", [DeviceResult("r", DeviceId(GPU, "n1", "gpu-0"))])
    state.hold("ns/first", [taken("gpu-1", memory=10)])
    found = allocate(state, share_of())
    assert isinstance(found, Refusal)
    text = summary(found.explanation)
    assert f"nearest: {GPU}/n1/gpu-1 on n1: held by ns/first ({said})" in text


def test_all_who_have_shares_of_other_capacities_go_before_a_demand_gets_the_device() -> None:
    """The cheapest device of three; a few questions tell, because each of these shares is known to stand in the way."""
    state = cluster(gpus(amounts(hbm=80), count=3))
    victims = []
    for number, (name, lost) in enumerate([("gpu-0", 10)] * 3 + [("gpu-1", 11)] * 2 + [("gpu-2", 5)] * 2):
        key, result = f"{name}/{number}", taken(name, memory=10)
        state.hold(key, [result])
        victims.append(Victim(key, 0, 1, lost, {key: (result,)}))
    found = find_victims(state, share_of(hbm=80), [NodeVictims("n1", tuple(victims))], tries=5)
    assert found is not None
    assert [each.key for each in found.victims] == ["gpu-2/5", "gpu-2/6"]
    assert found.proven
