"""A leader whose clock was ahead writes times that are to come; another one, or a clock that was put right, goes on all the same."""

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.cluster.kinds import DEFRAGS
from tests.cli.worlds import Cluster
from tests.clients import silent
from tests.defrag import moving
from tests.defrag.planned import policies, policy, scattered

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
    leader = policies(cluster, server, silent)
    await leader.act()
    assert len(server.status.get("plan", {}).get("moves", ())) == 1
    before = dict(server.status)
    await leader.act()
    assert server.status == before


def let_be_later(trial: moving.Moving, *keys: str) -> None:
    """Let what is written down of a plan, and of its first move, be of a year later; another leader takes it over."""
    raw = copy.deepcopy(trial.cluster.objects[DEFRAGS.name, "", moving.POLICY])
    campaign = raw["status"]["campaign"]
    for where, key in (
        (each, key) for each in (campaign, campaign["moves"][0]) for key in keys if key in each
    ):
        at = datetime.fromisoformat(where[key]) + AHEAD
        where[key] = at.strftime("%Y-%m-%dT%H:%M:%SZ")
    trial.cluster.see(DEFRAGS, raw)
    trial.lead()


async def test_places_of_a_move_that_seems_to_be_yet_to_come_are_let_go_after_its_timeout(
    silent: Client,
) -> None:
    """No pod comes instead, as of a Deployment that was made smaller."""
    trial = moving.scattered(silent, successors=False)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    await trial.rounds(5)
    let_be_later(trial, "began", "closes", "evicted", "since")
    assert trial.held
    await trial.rounds()
    assert not trial.held
    assert trial.campaign is not None
    assert trial.campaign.reason == "NoSuccessor"


async def test_no_move_begins_in_a_window_that_is_open_for_longer_than_its_length(silent: Client) -> None:
    """It would close in a year."""
    trial = moving.crowded(silent)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    let_be_later(trial, "closes")
    await trial.rounds()
    assert len(trial.evicted) == 1
    assert trial.campaign is not None
    assert trial.campaign.reason == "WindowClosed"
