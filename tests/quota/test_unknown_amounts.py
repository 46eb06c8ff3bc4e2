"""What a demand takes is not known where a quota counts a model, or where it has alternatives: that is no reason to go before what is guaranteed."""

from collections import Counter

import pytest

from apportion.cluster.client import Client
from tests.observedcluster import Json, ObservedCluster, request
from tests.quota.tenants import GPUS, cluster, leave, quota, wait

H100S = {"name": "h100", "model": "H100"}


def gpus_of_a_model(count: int) -> ObservedCluster:
    """Return a node with so many GPUs of a model, which nothing is reserved of, and a class that nobody offers."""
    made = cluster(count, "a", "b")
    made.policy(queue={"mostReserved": 0})
    made.device_class("none", 'device.driver == "none.example.com"')
    model = {"productName": {"string": "H100"}}
    devices = [{"name": f"gpu-{number}", "attributes": model} for number in range(count)]
    made.slice("n1", "n1-devices", {"devices": devices}, 1)
    return made


def named(number: int) -> Json:
    """Return the same request as others under a name of its own."""
    return request("gpu", name=f"r{number}")


def either(number: int) -> Json:
    """Return a request that takes a GPU, or else what nobody offers."""
    alternatives = [{"name": "one", "deviceClassName": "gpu"}, {"name": "two", "deviceClassName": "none"}]
    return {"name": f"r{number}", "firstAvailable": alternatives}


@pytest.mark.parametrize("guaranteed", [0, 4])
@pytest.mark.parametrize(("counted", "asked"), [(H100S, request("gpu")), (H100S, named), (GPUS, either)])
async def test_what_nobody_asked_for_before_goes_behind_guarantees_and_smaller_shares(
    guaranteed: int, counted: Json, asked: object, silent: Client
) -> None:
    """Tenant a has seven of eight GPUs, of which two come free; b has one, by its guarantee or without any."""
    world = gpus_of_a_model(8)
    quota(world, "a", counted, cohort="x")
    quota(world, "b", counted | {"guaranteed": guaranteed}, cohort="x")
    cycle = world.cycle(silent)
    # Tenants choose their priorities: no priority goes before a guarantee.
    priority = 1000 if guaranteed else 0
    for number in range(7):
        wait(world, "a", f"a-{number}", at=number, priority=priority)
    cycle.once()
    wait(world, "b", "b-0", at=10)
    cycle.once()
    leave(world, "a", "a-0")
    leave(world, "a", "a-1")
    for number in range(4):
        wait(world, "b", f"b-more-{number}", at=20 + number)
        requested = asked(number) if callable(asked) else asked
        wait(world, "a", f"a-more-{number}", requested, at=30 + number, priority=priority)
    cycle.once()
    assert Counter(name[0] for name in world.places()) == {"a": 5, "b": 3}
