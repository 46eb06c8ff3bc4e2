"""Who looks at a DefragPolicy sees that another leader carries its plan out: `kubectl describe` and `kubectl events` say so."""

from apportion.cluster.client import Client
from tests.clients import silent
from tests.defrag.moving import POLICY, Moving, crowded

__all__ = ["silent"]


def resumed(trial: Moving) -> list[str]:
    """Return what the present leader has said on the policy about plans that it took over."""
    return [
        text for name, reason, text in trial.cluster.normals if (name, reason) == (POLICY, "MovesResumed")
    ]


async def test_a_leader_that_goes_on_says_so_once_and_how_far_the_plan_is(silent: Client) -> None:
    """Between two moves, so that one is made; the leader that began says nothing of the kind, nor does one that finds the plan carried out."""
    trial = crowded(silent)
    await trial.start()
    await trial.rounds(until=lambda: len(trial.evicted) == 2)
    assert resumed(trial) == []
    trial.lead()
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
    assert resumed(trial) == ["what was begun before goes on: 1 of 2 moves made"]
    trial.lead()
    assert resumed(trial) == []
