"""The pod that comes instead of one that was moved may ask for something else: neither of its places is that, or its selectors are still to be evaluated."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from tests.clients import silent
from tests.defrag import planned
from tests.defrag.moving import Moving, policy, scattered
from tests.defrag.planned import cards, makes, runs

__all__ = ["silent"]


async def test_a_pod_that_none_of_its_places_suits_is_served_as_any_other(silent: Client) -> None:
    """A StatefulSet was edited, or a template made anew: the pod waited for `moveTimeout` beside a free card, and nothing said why."""
    cluster = cards(3)
    runs(cluster, "a", "n1", "1g.10gb", 3)
    runs(cluster, "b", "n2", "1g.10gb", 0)
    policy(cluster)
    trial = Moving(cluster, silent, successors=False, linger=4)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    makes(trial.cluster, "anew-1", "3g.40gb")
    while trial.evicted[0] in trial.cluster.snapshot.pods:
        assert "anew-1" not in trial.running()  # its old place may suit it once that is free
        await trial.round()
    await trial.rounds(most=3, until=lambda: "anew-1" in trial.running())
    assert "anew-1" in trial.running()
    assert trial.held
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "NoSuccessor"
    assert trial.held == set()


async def test_a_pod_whose_selectors_are_to_be_evaluated_waits_for_the_place_that_is_held(
    silent: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are new and long, and evaluated while the queue is gone through: decided then, it got other devices, and its move was in vain."""
    trial = scattered(silent, successors=False)
    await trial.start()
    await trial.rounds(until=lambda: bool(trial.evicted))
    request = planned.profile_request

    def long(profile: str) -> dict[str, Any]:
        made = request(profile)
        [selector] = made["exactly"]["selectors"]
        selector["cel"]["expression"] += " || false" * 300
        return made

    monkeypatch.setattr(planned, "profile_request", long)
    makes(trial.cluster, "anew-1", "1g.10gb")
    await trial.rounds()
    assert trial.campaign is not None
    assert trial.campaign.reason == "Completed"
