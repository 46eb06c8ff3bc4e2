"""How many writes a claim costs the API server."""

import pytest

from apportion.cluster.kinds import CLAIMS, EVENTS
from testbed.eventually import eventually
from tests.cluster.apiserver import ApiServer
from tests.cluster.replica import claim, devices, replica

pytestmark = pytest.mark.slow


async def test_a_claim_that_is_served_at_once_is_written_and_not_talked_about(server: ApiServer) -> None:
    """One write of its status, and one of the finalizer that controller-manager has set where a pod names the claim."""
    async with replica(server):
        claim(server, "first")
        await eventually(lambda: served(server), lambda found: found == {"first"})
        claim(server, "second")
        await eventually(lambda: served(server), lambda found: found == {"first", "second"})
    writes = [path for method, path in server.requests if method != "GET" and "/leases" not in path]
    assert len(writes) == 4
    assert all("/resourceclaims/" in path for path in writes)


async def test_the_end_of_a_wait_is_an_event(server: ApiServer) -> None:
    """Those who read that it waits read that it waits no longer."""
    async with replica(server):
        for name in ("first", "second", "third"):
            claim(server, name)
        await eventually(lambda: reasons(server), lambda found: len(found) == 1)
        [(waiting, _)] = await reasons(server)
        holders = await eventually(lambda: served(server), lambda found: len(found) == 2)
        server.drop(CLAIMS, min(holders), "team")
        await eventually(
            lambda: reasons(server),
            lambda found: found == {(waiting, "NotAllocated"), (waiting, "Allocated")},
        )


async def served(server: ApiServer) -> set[str]:
    return set(devices(server))


async def reasons(server: ApiServer) -> set[tuple[str, str]]:
    """Return the claim and the reason of each Event."""
    return {(raw["involvedObject"]["name"], raw["reason"]) for raw in server.all(EVENTS)}
