"""A leader whose clock was ahead writes times that are to come; another one, or a clock that was put right, goes on all the same."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS
from apportion.scheduling.defrag.policies import DefragPolicies
from apportion.scheduling.preemption.evictor import Evictor
from tests.cli.worlds import Cluster
from tests.clients import silent
from tests.defrag.planned import policy, scattered

__all__ = ["silent"]
AHEAD = timedelta(days=365)


class Patched:
    """A server that merges what is patched into the policy."""

    def __init__(self, cluster: Cluster) -> None:
        self._raw = cluster.objects["DefragPolicy", "", "tidy"]
        self.status: dict[str, Any] = dict(self._raw["status"])

    async def patch(self, _kind: object, _name: str, body: dict[str, Any], *, sub: str) -> dict[str, Any]:
        """Take a status."""
        assert sub == "status"
        self.status |= body["status"]
        made = copy.deepcopy(self._raw) | {"status": self.status}
        made["metadata"]["resourceVersion"] = str(1_000_000 + len(str(made)))
        return made


@pytest.mark.parametrize("mode", ["Recommend", "Evict"])
async def test_a_window_is_planned_also_where_the_last_one_seems_to_be_yet_to_come(
    silent: Client, mode: str
) -> None:
    """It is planned once; no other would have been for a year."""
    cluster = scattered()
    policy(cluster, mode=mode)
    raw = cluster.objects["DefragPolicy", "", "tidy"]
    ahead = (datetime.fromtimestamp(cluster.seconds(), UTC) + AHEAD).strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = {"began": ahead, "closes": ahead, "evicted": ahead, "ended": ahead, "reason": "Completed"}
    cluster.see(DEFRAGS, raw | {"status": {"lastSchedule": ahead, "campaign": ended}})
    server = Patched(cluster)
    cycle = cluster.cycle(silent)
    policies = DefragPolicies(
        cast("Client", server),
        cluster.snapshot,
        cycle.decider,
        cycle.places,
        Evictor(silent, fence=lambda: None),
        fence=lambda: None,
        now=lambda: datetime.fromtimestamp(cluster.seconds(), UTC),
        clock=cluster.clock,
        wake=lambda: None,
    )
    await policies.act()
    assert len(server.status.get("plan", {}).get("moves", ())) == 1
    before = dict(server.status)
    await policies.act()
    assert server.status == before
