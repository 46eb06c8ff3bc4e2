"""For whom of a cohort devices are reserved."""

from apportion.cluster.client import Client
from tests.quota.tenants import namespace, quota
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
