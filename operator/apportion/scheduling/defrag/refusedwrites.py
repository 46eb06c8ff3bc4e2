"""RefusedWrites: for how long the API server has refused what carries a plan out, and which plans have ended though their policies say that they go on.

In: what was answered, the clock. Out: whether it is time to give a plan up; whether a policy's plan is over.
"""

from collections.abc import Callable

from apportion.api.defrag import Campaign, DefragPolicy
from apportion.errors import ApiError, Unreachable

_PATIENCE = 30.0
"""Seconds for which it is tried again: a right, or an admission policy, may be on its way."""


class RefusedWrites:
    """Refusals by which nothing goes on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._since: float | None = None
        """Since when each answer was a refusal."""
        self._over: dict[str, Campaign] = {}
        """What has ended and could not be written down, by UID of the policy."""

    def answered(self) -> None:
        """Note that something was written, or that another plan begins."""
        self._since = None

    def are_final(self, error: ApiError) -> bool:
        """Note an answer; says whether there have been refusals alone for so long that nothing else is to come."""
        if isinstance(error, Unreachable):
            self._since = None
            return False
        if self._since is None:
            self._since = self._clock()
        return self._clock() - self._since >= _PATIENCE

    def end(self, policy: DefragPolicy, campaign: Campaign) -> None:
        """Remember that what is carried out for a policy is over."""
        self._over[policy.metadata.uid] = campaign

    def has_ended(self, policy: DefragPolicy) -> bool:
        """Say whether what the policy's status takes for unfinished is over."""
        over, campaign = self._over.get(policy.metadata.uid), policy.status.campaign
        return over is not None and campaign is not None and over.began == campaign.began
