"""For whom of a cohort devices are reserved."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import QUOTAS
from tests.observedcluster import request
from tests.quota.tenants import GPUS, namespace, quota, wait
from tests.scheduling.reserving import Reserving, on


async def test_a_place_that_becomes_free_is_for_the_first_that_was_refused(unanswered: Client) -> None:
    """The tenant with less goes first, so its large pod is refused before the other one's pods are served and refused."""
    made = Reserving(unanswered, {"n1": 2, "n2": 1}, mostReserved=1)
    for team in "ab":
        namespace(made.world, team, team=team)
        quota(made.world, team, cohort="x")
    made.starts("old-1", 2, namespace="a")
    made.starts("old-2", namespace="a")
    made.comes("first", namespace="a", spec={"affinity": on("n2")})
    made.passes()
    assert made.reserved.keys() == {"first"}
    made.comes("large", 2, namespace="b")
    made.comes("second", namespace="a")
    assert made.passes() == []
    made.ends("old-2")
    assert made.passes() == ["first"]
    assert made.reserved == {"large": (["n1"], None)}


async def test_nobody_stands_back_behind_who_waits_for_what_it_does_not_ask_for(unanswered: Client) -> None:
    """Of the other tenant's GPUs some are guaranteed and not used; it waits for a NIC, for as long as there is none."""
    made = Reserving(unanswered, {"n1": 2})
    made.world.device_class("nic", 'device.driver == "nic.apportion.dev"')
    for team, guaranteed in (("a", 0), ("b", 1)):
        namespace(made.world, team, team=team)
        both = GPUS | {"guaranteed": guaranteed}, {"name": "nics", "deviceClass": "nic", "guaranteed": 1}
        quota(made.world, team, *both, cohort="x")
    wait(made.world, "b", "nic", request("nic"))
    namespace(made.world, "c")
    made.starts("old", namespace="c")
    made.comes("large", 2, namespace="a")
    assert made.passes() == []
    assert made.passes() == []
    assert made.reserved == {"large": (["n1"], None)}


async def test_a_group_that_waited_for_its_quota_once_has_devices_reserved_when_it_waits_for_these(
    unanswered: Client,
) -> None:
    """Its limit was raised, and the devices are used by others."""
    made = Reserving(unanswered, {"n1": 4})
    for team in "ab":
        namespace(made.world, team, team=team)
    quota(made.world, "a", limit=2)
    made.starts("old", 4, namespace="b")
    for name in ("a1", "a2"):
        made.comes(name, 2, namespace="a", group=("g", 2))
    made.passes()
    assert ("a1", "ExceedsLimit") in made.world.warned
    quota(made.world, "a", limit=4)
    made.passes()
    made.passes()
    assert [*made.reserved.values()] == [(["n1"], None)]


async def test_who_waited_for_a_quota_that_is_gone_has_devices_reserved(unanswered: Client) -> None:
    """Nothing else says that it waits for its quota no more."""
    made = Reserving(unanswered, {"n1": 4})
    for team in "ab":
        namespace(made.world, team, team=team)
    limited = quota(made.world, "a", limit=2)
    made.starts("old", 4, namespace="b")
    made.comes("large", 4, namespace="a")
    made.passes()
    assert ("large", "ExceedsLimit") in made.world.warned
    made.world.gone(QUOTAS, limited)
    made.passes()
    made.passes()
    assert made.reserved == {"large": (["n1"], None)}
