"""Quotas that change: a limit for the namespace with the gate, guarantees and limits for the teams of a cohort.

In: a control plane, the checker, random choices. Out: changes. What a limit lets nobody have is checked each second, once the limit is older
than any write takes. Of GPUs those are counted that nobody shares.
"""

import random
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final

from testbed import violations
from testbed.api import Api, Json
from testbed.checker import Checker
from testbed.soak.insistence import apply, remove
from testbed.soak.specs import GPU
from testbed.soak.workload import GATED, TEAM, TEAMS

_SETTLED_SECONDS: Final = 25.0
"""How long a limit stands before what is beyond it counts: a leader may die, and its last write come late."""
_PATH: Final = "/apis/apportion.dev/v1alpha1/acceleratorquotas"
_PROFILE: Final = "1g.10gb"
_GPUS: Final = "gpus"
_SMALL: Final = "small"
"""Resources of quotas: whole GPUs, and partitions of the profile."""


class Quotas:
    """`acts` are changes, by how often they come; `undo` makes an end of all quotas."""

    def __init__(self, api: Api, checker: Checker, choose: random.Random) -> None:
        self.violations: set[str] = set()
        self.acts: Mapping[Callable[[], Coroutine[Any, Any, str]], int] = {self._limit: 3, self._teams: 3}
        """Each returns in words what it did."""
        self._api, self._checker, self._choose = api, checker, choose
        self._limits: dict[str, tuple[Mapping[str, int], float]] = {}
        """By team: what its claims may have together of each resource, and since when (`time.monotonic()`)."""
        self._had: Counter[tuple[str, str]] = Counter()
        """By team and resource."""

    def look(self) -> None:
        """Note what teams have come to have beyond limits that are old enough."""
        have = Counter(self._charged())
        for team, (limits, since) in self._limits.items():
            if time.monotonic() - since <= _SETTLED_SECONDS:
                continue
            for name, most in limits.items():
                if (count := have[team, name]) > max(most, self._had[team, name]):
                    self.violations.add(f"team {team} has {count} of {name}, and its quota says {most}")
        self._had = have

    def _charged(self) -> Iterator[tuple[str, str]]:
        """Yield team and resource of each device that a claim has."""
        for claim in self._checker.claims.values():
            team, dash, _ = claim["metadata"]["namespace"].partition("-")
            for use in violations.uses(claim) if dash else ():
                name = use.device[2]
                if f"-mig-{_PROFILE.replace('.', '')}-" in name:
                    yield team, _SMALL
                elif use.device[0] == GPU and "-mig-" not in name and not use.share:
                    yield team, _GPUS

    async def undo(self) -> None:
        """Remove all quotas."""
        for team in (GATED, *TEAMS):
            await self._remove(team)

    async def _limit(self) -> str:
        """Limit what the namespace with the gate has, or let it have all."""
        most = self._choose.choice((None, 0, 2, 4, 8))
        if most is None:
            await self._remove(GATED)
        else:
            await self._have(GATED, [{"name": _SMALL, "profile": _PROFILE, "limit": most}])
        return "quota changed"

    async def _teams(self) -> str:
        """Give each team other guarantees, weights and limits, or no quota."""
        choose = self._choose
        for team in TEAMS:
            if choose.random() < 0.2:
                await self._remove(team)
                continue
            gpus: Json = {"guaranteed": choose.choice((0, 1, 3)), "weight": choose.choice((1, 2))}
            if choose.random() < 0.3:
                gpus["limit"] = choose.choice((3, 6))
            small = {"guaranteed": choose.choice((0, 2)), "limit": choose.choice((2, 8, 30))}
            await self._have(
                team,
                [
                    {"name": _GPUS, "deviceClass": GPU, **gpus},
                    {"name": _SMALL, "profile": _PROFILE, **small},
                ],
                cohort="teams",
                reclaimWithinCohort=choose.choice(("Never", "Any", "Any")),
            )
        return "quotas of teams changed"

    async def _have(self, team: str, resources: Sequence[Json], **spec: Any) -> None:
        """Create or change the quota of a team. Its limits before and after count for nothing meanwhile."""
        self._limits.pop(team, None)
        chosen = {"namespaceSelector": {"matchLabels": {TEAM: team}}, "resources": [*resources]}
        await apply(self._api, _PATH, "AcceleratorQuota", team, chosen | spec)
        limits = {each["name"]: each["limit"] for each in resources if "limit" in each}
        self._limits[team] = limits, time.monotonic()

    async def _remove(self, team: str) -> None:
        self._limits.pop(team, None)
        await remove(self._api, f"{_PATH}/{team}")
