"""Quotas that change: a limit for the namespace with the gate, guarantees and limits for the teams of a cohort.

In: a control plane, the checker, random choices. Out: changes. What a limit lets nobody have is checked each second, once it has stood for longer
than any write takes.
"""

import random
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from testbed.api import Api, Json
from testbed.checker import Checker
from testbed.soak.insistence import apply, remove
from testbed.soak.specs import GPU
from testbed.soak.workload import GATED, TEAM, TEAMS

_SETTLED_SECONDS: Final = 25.0
"""How long a limit stands before what is beyond it counts: a leader may die, and its last write come late."""
_PATH: Final = "/apis/apportion.dev/v1alpha1/acceleratorquotas"
_PROFILE: Final = "1g.10gb"


class Quotas:
    """`acts` are changes, by how often they come; `undo` makes an end of all quotas."""

    def __init__(self, api: Api, checker: Checker, choose: random.Random) -> None:
        self.violations: set[str] = set()
        self.acts: Mapping[Callable[[], Coroutine[Any, Any, str]], int] = {self._limit: 3, self._teams: 3}
        """Each returns in words what it did."""
        self._api, self._checker, self._choose = api, checker, choose
        self._most: tuple[int | None, float] = None, 0.0
        """What pods of the namespace with the gate may have together, and since when (`time.monotonic()`)."""
        self._had = 0

    def look(self) -> None:
        """Note what pods have beyond a limit that has stood for a while."""
        most, since = self._most
        have = sum(
            1
            for claim in self._checker.claims.values()
            if claim["metadata"]["namespace"].startswith(GATED)
            for row in claim.get("status", {}).get("allocation", {}).get("devices", {}).get("results") or ()
            if "-mig-1g10gb-" in row["device"]
        )
        stood = time.monotonic() - since > _SETTLED_SECONDS
        if most is not None and stood and have > max(most, self._had):
            self.violations.add(f"{have} partitions {_PROFILE} are had, and the quota says {most}")
        self._had = have

    async def undo(self) -> None:
        """Remove all quotas."""
        for name in (GATED, *TEAMS):
            await remove(self._api, f"{_PATH}/{name}")
        self._most = None, time.monotonic()

    async def _limit(self) -> str:
        """Limit what the namespace with the gate has, or let it have all."""
        most = self._choose.choice((None, 0, 2, 4, 8))
        if most is None:
            await remove(self._api, f"{_PATH}/{GATED}")
        else:
            await self._have(GATED, resources=[{"name": "small", "profile": _PROFILE, "limit": most}])
        self._most = most, time.monotonic()
        return "quota changed"

    async def _teams(self) -> str:
        """Give each team other guarantees, weights and limits, or no quota."""
        choose = self._choose
        for team in TEAMS:
            if choose.random() < 0.2:
                await remove(self._api, f"{_PATH}/{team}")
                continue
            gpus: Json = {"guaranteed": choose.choice((0, 1, 3)), "weight": choose.choice((1, 2))}
            if choose.random() < 0.3:
                gpus["limit"] = choose.choice((3, 6))
            small = {"guaranteed": choose.choice((0, 2)), "limit": choose.choice((2, 8, 30))}
            await self._have(
                team,
                cohort="teams",
                reclaimWithinCohort=choose.choice(("Never", "Any", "Any")),
                resources=[
                    {"name": "gpus", "deviceClass": GPU, **gpus},
                    {"name": "small", "profile": _PROFILE, **small},
                ],
            )
        return "quotas of teams changed"

    async def _have(self, team: str, **spec: Any) -> None:
        """Create or change the quota of a team."""
        chosen = {"namespaceSelector": {"matchLabels": {TEAM: team}}}
        await apply(self._api, _PATH, "AcceleratorQuota", team, chosen | spec)
