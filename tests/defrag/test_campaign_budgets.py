"""A PodDisruptionBudget ends the moves of a window, and nobody is touched."""

from apportion.cluster.client import Client
from tests.clients import silent
from tests.defrag.moving import scattered

__all__ = ["silent"]


async def test_a_budget_ends_it_and_nobody_is_touched(silent: Client) -> None:
    """Asked again for half a minute, then given up."""
    trial = scattered(silent, protected=("a", "b"))
    await trial.start()
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Blocked"
    assert "PodDisruptionBudget keep" in trial.campaign.message
    assert (trial.evicted, trial.held) == ([], set())
    assert trial.running().keys() == {"a", "b"}


async def test_a_budget_that_ended_moves_is_asked_for_half_a_minute_in_a_later_window(
    silent: Client,
) -> None:
    """The time of the window before counted: one refusal ended the moves of each later one that begins with the same pod."""
    trial = scattered(silent, protected=("a", "b"))
    await trial.start()
    await trial.rounds()
    await trial.round(seconds=3600.0)
    await trial.start()
    await trial.round()
    trial.protected = ()
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
