"""What a soak says of teams that have more than their quotas let them have."""

import random
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pytest

from testbed.api import Json
from testbed.soak import quotas
from testbed.soak.workload import GATED, TEAMS
from tests.testbed.violationobjects import claim, share


class _Teams:
    """Quotas as a soak sets them, and claims."""

    def __init__(self) -> None:
        self.claims: dict[str, Json] = {}
        self.limits: dict[str, dict[str, int]] = {}
        """By team, then by resource."""
        choose = random.Random(3)  # noqa: S311 - no secret, but the same choices for the same seed
        api: Any = SimpleNamespace(patch=self._patch, delete=self._delete)
        self.soak = quotas.Quotas(api, SimpleNamespace(claims=self.claims), choose)  # type: ignore[arg-type]

    async def _patch(self, path: str, body: Json, *_: object, **__: object) -> None:
        resources = body["spec"]["resources"]
        self.limits[_name(path)] = {each["name"]: each["limit"] for each in resources if "limit" in each}

    async def _delete(self, path: str) -> None:
        self.limits.pop(_name(path), None)

    async def limit(self) -> None:
        """Have quotas until each team, and the namespace with the gate, has had each of its limits."""
        while not {name for team in TEAMS for name in self.limits.get(team, ())} >= {"gpus", "small"} or not (
            self.limits.get(GATED)
        ):
            for act in self.soak.acts:
                await act()

    def have(self, claims: Iterable[Json], team: str) -> None:
        """Replace the claims, and look, as each second."""
        self.claims.clear()
        for each in claims:
            each["metadata"]["namespace"] = f"{team}-x1"
            self.claims[each["metadata"]["uid"]] = each
        self.soak.look()


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _gpus(count: int) -> list[Json]:
    shares = [share(f"s{number}", "10Gi") for number in range(20)]
    return shares + [claim(f"g{number}", f"gpu-{number}") for number in range(count)]


def _small(count: int) -> list[Json]:
    return [claim(f"m{number}", f"gpu-0-mig-1g10gb-19-{number}") for number in range(count)]


@pytest.fixture
async def teams(monkeypatch: pytest.MonkeyPatch) -> _Teams:
    monkeypatch.setattr(quotas, "_SETTLED_SECONDS", -1.0)
    found = _Teams()
    await found.limit()
    return found


async def test_a_team_beyond_one_of_its_limits_is_seen(teams: _Teams) -> None:
    """Whole GPUs and small partitions; shares are not counted."""
    for team, limits in teams.limits.items():
        for name, most in limits.items():
            make = _gpus if name == "gpus" else _small
            before = len(teams.soak.violations)
            teams.have(make(most), team)
            assert len(teams.soak.violations) == before
            teams.have(make(most + 1), team)
            assert len(teams.soak.violations) == before + 1


async def test_what_a_team_had_before_is_not_beyond_its_limit(teams: _Teams) -> None:
    """A limit takes nothing away."""
    for team in TEAMS:
        await teams.soak.undo()
        teams.have(_small(40), team)
        await teams.limit()
        teams.have(_small(40), team)
    assert not teams.soak.violations
