"""Where nobody lets the operator write a DefragPolicy's status, nothing is held for its moves any more, and other policies have theirs made."""

from dataclasses import dataclass, field

import pytest

from apportion.api.defrag import Campaign, DefragPolicy
from apportion.cluster.client import Client
from apportion.errors import ApiError, Unreachable
from tests.clients import silent
from tests.defrag.moving import POLICY, Moving, policy
from tests.defrag.planned import cards, runs

__all__ = ["silent"]


@dataclass
class Refusing(Moving):
    """A leader that may not write a status any more, or is told to come back later."""

    error: ApiError | None = None
    asked: list[float] = field(default_factory=list)
    """When it tried."""

    async def _write(self, found: DefragPolicy, campaign: Campaign) -> bool:
        if self.error is not None:
            self.asked.append(self.cluster.seconds())
            raise self.error
        return await super()._write(found, campaign)


def two_cards(client: Client) -> Refusing:
    """Return two cards with a small partition on each, and a policy that wants a whole card."""
    cluster = cards()
    runs(cluster, "a", "n1", "1g.10gb", 3)
    runs(cluster, "b", "n2", "1g.10gb", 0)
    policy(cluster)
    return Refusing(cluster, client)


@pytest.mark.parametrize("moved", [False, True])
async def test_places_are_let_go_where_the_status_may_not_be_written(silent: Client, *, moved: bool) -> None:
    """Before the pod goes, which then stays, and when the one that came instead runs: without an end to that the devices were held for ever."""
    trial = two_cards(silent)
    await trial.start()
    if moved:
        await trial.rounds(until=lambda: bool(trial.evicted))
    trial.error = ApiError("admission webhook denied the request", status=403)
    for _ in range(5):
        await trial.round()
    assert trial.held == set()
    assert (len(trial.evicted), len(trial.running())) == (int(moved), 2)
    assert trial.cluster.warned.count((POLICY, "MovesEnded")) == 1


async def test_an_end_that_may_not_be_written_keeps_no_other_plan(silent: Client) -> None:
    """It is given up and not taken over again, though the policy says still that it goes on; what is planned next is carried out."""
    trial = two_cards(silent)
    await trial.start()
    trial.error = ApiError("admission webhook denied the request", status=403)
    for _ in range(12):
        await trial.round()
    assert not trial.campaigns.busy
    trial.campaigns.resume()
    assert not trial.campaigns.busy
    asked = len(trial.asked)
    await trial.round()
    assert len(trial.asked) == asked
    trial.error = None
    await trial.start()
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"


async def test_a_server_that_asks_to_come_back_later_refuses_nothing(silent: Client) -> None:
    """However long that takes the move is written down then, and goes on."""
    trial = two_cards(silent)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    trial.error = Unreachable("try again later", status=429)
    for _ in range(8):
        await trial.round()
    assert trial.held
    trial.error = None
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
