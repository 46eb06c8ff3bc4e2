"""For whom of a cohort devices are reserved."""

from apportion.cluster.client import Client
from apportion.cluster.kinds import QUOTAS
from tests.observedcluster import GPU, Json, request
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


def either(*classes: str) -> Json:
    """Return a request for a device of the first of these classes that has one."""
    listed = [{"name": each, "deviceClassName": each} for each in classes]
    return {"name": "gpu", "firstAvailable": listed}


def two_models(unanswered: Client, limit: int) -> Reserving:
    """Publish a free H100 and an A100 that tenant `b` has; a limit of H100s for tenant `a`, for which a pod waits that would take either."""
    made = Reserving(unanswered, {"n1": 1})
    other = {"name": "a100-0", "attributes": {"model": {"string": "a100"}}}
    made.world.slice("n1", "n1-more", {"devices": [other]}, 1, pool="more")
    for model in ("h100", "a100"):
        made.world.device_class(model, f'device.attributes["{GPU}"].model == "{model}"')
    made.world.policy(classes=["h100", "a100"], queue={"reserveAfter": "0s"})
    for team in "ab":
        namespace(made.world, team, team=team)
    quota(made.world, "a", {"name": "h100s", "deviceClass": "h100", "limit": limit})
    made.comes("old", namespace="b", wanted=[request("a100")])
    made.passes()
    return made


async def test_nothing_is_reserved_that_a_limit_rules_out(unanswered: Client) -> None:
    """The first of the queue waits for the A100, and another tenant has the free H100 meanwhile."""
    made = two_models(unanswered, 0)
    made.comes("first", namespace="a", priority=5, wanted=[either("h100", "a100")])
    assert made.passes() == []
    assert made.passes() == []
    assert [*made.held().values()] == [["more/a100-0"]]
    made.comes("other", namespace="b", wanted=[request("h100")])
    assert made.passes() == ["other"]


async def test_what_was_reserved_before_a_limit_ruled_it_out_is_let_go(unanswered: Client) -> None:
    """The limit was lowered while both models were used by others."""
    made = two_models(unanswered, 1)
    made.comes("old-2", namespace="b", runtime="1h", wanted=[request("h100")])
    made.passes()
    made.comes("first", namespace="a", priority=5, wanted=[either("h100", "a100")])
    made.passes()
    made.passes()
    assert [*made.held().values()] == [["n1/gpu-0"]]
    quota(made.world, "a", {"name": "h100s", "deviceClass": "h100", "limit": 0})
    made.passes()
    assert ["n1/gpu-0"] not in made.held().values()
    made.ends("old-2")
    made.comes("other", namespace="b", wanted=[request("h100")])
    assert made.passes() == ["other"]
