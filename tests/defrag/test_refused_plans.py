"""A policy whose status the API server does not take is not planned for in each second of its window: a plan takes seconds of computation."""

from typing import Any

import pytest

from apportion.cluster.client import Client
from apportion.errors import ApiError, Overtaken
from apportion.scheduling.defrag.planning import Picture, Planned
from tests.clients import silent
from tests.defrag.planned import policies, policy, scattered

__all__ = ["silent"]


class Refusing:
    """A server that takes no status."""

    def __init__(self, error: ApiError) -> None:
        self._error = error

    async def patch(self, *_: object, **_more: object) -> dict[str, Any]:
        """Refuse it."""
        raise self._error


@pytest.mark.parametrize(
    ("error", "plans"),
    [(ApiError("status is invalid", status=422), 4), (Overtaken("it was edited", status=409), 70)],
)
async def test_a_policy_whose_status_is_refused_is_left_alone_for_a_while(
    silent: Client, monkeypatch: pytest.MonkeyPatch, error: ApiError, plans: int
) -> None:
    """In 70 s four plans are made, and not 70; one whose policy somebody else wrote at the same time is made once more at once."""
    cluster, made = scattered(), list[float]()
    policy(cluster, mode="Evict")
    plan = Picture.plan

    def counted(self: Picture) -> Planned:
        made.append(cluster.clock.now)
        return plan(self)

    monkeypatch.setattr(Picture, "plan", counted)
    leader = policies(cluster, Refusing(error), silent)
    for _ in range(70):
        await leader.act()
        cluster.clock.now += 1
    assert len(made) == plans
    assert not leader.campaigns.busy
